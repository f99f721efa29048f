#include "weft/transport/local/control.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {
namespace {

constexpr std::uint32_t kVersion = 0x57454604;  // changes with the layout: program and launcher may differ

}  // namespace

struct alignas(64) Control::Header {
  std::uint32_t version;
  std::int32_t num_ranks;
  std::int32_t launcher_pid;
  std::atomic<std::uint32_t> failed;
};

struct alignas(64) Control::Report {
  std::atomic<std::uint32_t> claimed;  // by the first thread of the reporter
  std::int32_t failed_rank;
  char reason[1016];
};

std::size_t Control::bytes_for(int num_ranks) {
  const auto n = num(num_ranks);
  return sizeof(Header) + n * sizeof(RankState) + (n + 1) * sizeof(Report) +
         (n + 1) * (n + 1) * sizeof(std::atomic<std::int64_t>);
}

Control::Control(std::shared_ptr<void> memory, int num_ranks) : memory_(std::move(memory)), num_ranks_(num_ranks) {
  auto* at = static_cast<std::byte*>(memory_.get());
  failed_ = &reinterpret_cast<Header*>(at)->failed;
  ranks_ = reinterpret_cast<RankState*>(at + sizeof(Header));
  reports_ = reinterpret_cast<Report*>(at + sizeof(Header) + num_ranks * sizeof(RankState));
  link_clocks_ = reinterpret_cast<std::atomic<std::int64_t>*>(reports_ + num_ranks + 1);
}

Control Control::create(std::shared_ptr<void> memory, int num_ranks) {
  Control control(std::move(memory), num_ranks);
  new (control.memory_.get()) Header{kVersion, num_ranks, getpid(), {}};
  for (int rank = 0; rank < num_ranks; ++rank) new (control.ranks_ + rank) RankState{};
  for (int reporter = 0; reporter <= num_ranks; ++reporter) new (control.reports_ + reporter) Report{};
  for (int link = 0; link < (num_ranks + 1) * (num_ranks + 1); ++link)
    new (control.link_clocks_ + link) std::atomic<std::int64_t>{0};
  return control;
}

Control Control::open(std::shared_ptr<void> memory, std::size_t bytes, int num_ranks) {
  const auto* header = static_cast<const Header*>(memory.get());
  if (bytes < bytes_for(num_ranks) || header->version != kVersion || header->num_ranks != num_ranks)
    fail(Code::io, "the launcher speaks another version of Weft; start the program with the `weft` it was built with");
  return Control(std::move(memory), num_ranks);
}

int Control::launcher_pid() const { return static_cast<const Header*>(memory_.get())->launcher_pid; }

void Control::set_host(int rank, std::string_view host) const noexcept {
  RankState& state = ranks_[rank];
  std::uint32_t nobody = 0;
  if (host.empty() || !state.named.compare_exchange_strong(nobody, 1)) return;
  std::memcpy(state.host, host.data(), std::min(host.size(), sizeof state.host - 1));
  state.named.store(2, std::memory_order_release);
}

std::string Control::host(int rank) const {
  const RankState& state = ranks_[rank];
  return state.named.load(std::memory_order_acquire) == 2 ? state.host : "";  // pairs with the release in set_host()
}

std::optional<Failure> Control::first_failure() const {
  const std::uint32_t first = failed_->load(std::memory_order_acquire);  // pairs with the release in report()
  if (first == 0) return std::nullopt;
  const Report& report = reports_[first - 1];
  return Failure{static_cast<int>(first - 1), report.failed_rank, report.reason};
}

void Control::report(int reporter, int failed_rank, std::string_view reason) const noexcept {
  Report& report = reports_[reporter];
  if (failed() || report.claimed.exchange(1, std::memory_order_relaxed) != 0) return;
  const std::size_t length = std::min(reason.size(), sizeof report.reason - 1);
  std::memcpy(report.reason, reason.data(), length);
  report.reason[length] = '\0';
  report.failed_rank = failed_rank;
  std::uint32_t none = 0;
  if (!failed_->compare_exchange_strong(none, static_cast<std::uint32_t>(reporter) + 1, std::memory_order_seq_cst))
    return;
  for (int rank = 0; rank < num_ranks_; ++rank) ring(ranks_[rank].bell);
}

}  // namespace weft
