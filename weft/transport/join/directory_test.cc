// Ranks that meet in a directory: here a map in this process, whose threads are the ranks. They join as processes of
// one host do: a thread has a seat, a segment and a heartbeat of its own.
#include "weft/transport/join/directory.h"

#include <condition_variable>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/refusal_test.h"

namespace weft {
namespace {

class DirectoryOfThreads {
 public:
  Directory of(int rank, int size) {
    Directory directory{rank, size};
    directory.publish = [this, rank](const std::string& key, const std::string& text) {
      const std::lock_guard lock(mutex_);
      EXPECT_TRUE(texts_.emplace(std::pair(rank, key), text).second) << key << " is published once";
      news_.notify_all();
    };
    directory.look_up = [this](int of, const std::string& key) {
      std::unique_lock lock(mutex_);
      const auto there = [&] { return texts_.count({of, key}) > 0; };
      if (!news_.wait_for(lock, std::chrono::seconds(20), there))
        throw Error(Code::deadline, fmt::format("rank {} has not published {}", of, key), of);
      return texts_.at({of, key});
    };
    return directory;
  }
  std::size_t texts() const { return texts_.size(); }

 private:
  std::mutex mutex_;
  std::condition_variable news_;
  std::map<std::pair<int, std::string>, std::string> texts_;
};

void as_threads(int num_ranks, const std::function<void(int rank)>& body) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(num_ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < num_ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
}

TEST(Directory, RanksOfOneHostShareMemory) {
  DirectoryOfThreads texts;
  as_threads(3, [&](int rank) {
    const auto transport = attach_directory(texts.of(rank, 3));
    EXPECT_EQ(transport->name(), "shm");
    EXPECT_EQ(transport->rank(), rank);
    EXPECT_EQ(transport->ranks_here(), 3);
    const auto segment = transport->allocate(64);
    std::memset(segment->base[static_cast<std::size_t>((rank + 1) % 3)], 'a' + rank, 64);
    transport->barrier();
    EXPECT_EQ(static_cast<char>(segment->base[static_cast<std::size_t>(rank)][63]), 'a' + (rank + 2) % 3);
    transport->barrier();
  });
}

// What a process group of some ranks needs: joining it is collective over these alone.
TEST(Directory, AProcessJoinsSeveralWorlds) {
  DirectoryOfThreads all, pair;
  as_threads(3, [&](int rank) {
    const auto world = attach_directory(all.of(rank, 3));
    if (rank > 0) {
      const auto group = attach_directory(pair.of(rank - 1, 2));
      EXPECT_EQ(group->all_gather(std::to_string(rank)), (std::vector<std::string>{"1", "2"}));
    }
    world->barrier();
  });
}

TEST(Directory, OneRankIsAWorldToo) {
  DirectoryOfThreads texts;
  const auto transport = attach_directory(texts.of(0, 1));
  EXPECT_EQ(transport->all_gather("me"), std::vector<std::string>{"me"});
}

TEST(Directory, RefusesARankThatIsNoneOfThem) {
  DirectoryOfThreads texts;
  EXPECT_EQ(refusal([&] { attach_directory(texts.of(2, 2)); }),
            "rank 2 of 2 cannot join: a world has 1 to 1024 ranks, counted from 0");
  EXPECT_EQ(texts.texts(), 0U) << "nothing is published by who cannot join";
}

TEST(Directory, WhatALookUpThrowsArrives) {
  Directory directory{1, 2};
  directory.publish = [](const std::string&, const std::string&) {};
  directory.look_up = [](int of, const std::string&) -> std::string {
    throw Error(Code::deadline, "rank 0 does not come", of);
  };
  try {
    attach_directory(directory);
    FAIL() << "joined";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::deadline);
    EXPECT_EQ(error.rank(), 0);
  }
}

}  // namespace
}  // namespace weft
