// A set of virtual hosts for one test: made on request, named after this process, and taken down at its end whatever
// happened. Skips where this machine lets nobody make them.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/virtual/lock.h"
#include "weft/virtual/make.h"
#include "weft/virtual/network.h"
#include "weft/virtual/remove.h"
#include "weft/virtual/tools.h"

namespace weft::virtual_hosts {

class MadeHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "virtual hosts need root";
    for (const char* program : {"ip", "tc"})
      if (find_program(program).empty()) GTEST_SKIP() << "virtual hosts need " << program << " (package iproute2)";
    try {
      const HostsLock lock;
      make_virtual_hosts(hosts(1), never);
    } catch (const Error& error) {
      GTEST_SKIP() << "this machine lets root make no virtual hosts: " << error.what();
    }
    removed();
  }
  void TearDown() override {
    if (geteuid() == 0) removed();
  }

  // Behind the lock, as `weft cluster down`: another test may be in one of the namespaces for a moment, and would end
  // with it.
  Removed removed() const {
    const HostsLock lock;
    return remove_virtual_hosts(name_);
  }

  static bool never() { return false; }

  // As `weft cluster up` asks for them; nothing is made.
  VirtualHosts hosts(int count) const {
    VirtualHosts all{.name = name_};
    const std::string subnet = free_subnet();
    for (int i = 0; i < count; ++i)
      all.hosts.push_back({.name = host_name(name_, i), .address = fmt::format("{}.{}", subnet, i + 1)});
    return all;
  }
  VirtualHosts made(int count) const {
    const HostsLock lock;
    const VirtualHosts all = hosts(count);
    make_virtual_hosts(all, never);
    return all;
  }
  bool is_there(const std::string& name) const {
    const auto all = find_virtual_hosts();
    return std::find(all.begin(), all.end(), name) != all.end();
  }

  const std::string name_ = fmt::format("unit-{}", getpid());
};

// The exit code of what a child of this process does; 128 + signal where one ended it.
template <typename Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    int code = 99;
    try {
      code = body();
    } catch (const std::exception&) {
    }
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace weft::virtual_hosts
