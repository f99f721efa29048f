#include "weft/sim/net/machine.h"

#include <algorithm>
#include <utility>

#include "weft/base/error.h"

namespace weft::netsim {
namespace {

// The rank of the network that each seat is at.
std::vector<std::int32_t> seat_nodes(const std::vector<Cast>& casts) {
  std::vector<std::int32_t> out;
  for (const Cast& cast : casts)
    for (std::size_t rank = 0; rank < cast.seat_of.size(); ++rank)
      if (at(cast.seat_of[rank]) == out.size()) out.push_back(cast.node_of[rank]);
  return out;
}

}  // namespace

Machine::Machine(const std::vector<Cast>& casts, const Topology& topology, std::vector<std::int32_t> canonical,
                 bool keep_slices)
    : casts_(casts),
      topology_(topology),
      keep_slices_(keep_slices),
      wires_(topology, std::move(canonical), seat_nodes(casts), keep_slices),
      ends_(casts.size(), 0) {
  seat_ranks();
}

// Seats that share a script lie side by side, burst by burst: they reach the same burst at about the same time.
void Machine::seat_ranks() {
  std::size_t cells = 0, bursts = 0;
  for (std::size_t job = 0; job < casts_.size(); ++job) {
    const Cast& cast = casts_[job];
    const auto first = seats_.size();
    for (int rank = 0; rank < int_size(cast.seat_of); ++rank) {
      if (seats_.size() != at(cast.seat_of[at(rank)])) continue;  // another acts for it
      Seat seat;
      seat.job = static_cast<std::int32_t>(job), seat.rank = rank, seat.node = cast.node_of[at(rank)];
      seat.seat_class = cast.class_of[at(rank)];
      seat.script = &cast.scripts.of[cast.scripts.shared ? 0 : at(rank)];
      if (!topology_.slower.empty()) seat.slower = topology_.slower[at(seat.node)];
      seat.first_cell = cells, seat.first_burst = bursts;
      if (cast.scripts.shared) {
        seat.first_cell += seats_.size() - first, seat.first_burst += seats_.size() - first;
        seat.stride = num(cast.num_seats);
      } else {
        cells += num(seat.script->num_cells()), bursts += seat.script->bursts.size();
      }
      seats_.push_back(seat);
    }
    if (!cast.scripts.shared) continue;
    cells += num(cast.scripts.of[0].num_cells()) * num(cast.num_seats);
    bursts += cast.scripts.of[0].bursts.size() * num(cast.num_seats);
  }
  cells_.resize(cells);
  missing_.resize(bursts);
  for (const Seat& seat : seats_)
    for (int b = 0; b < int_size(seat.script->bursts); ++b) missing(seat, b) = seat.script->bursts[at(b)].missing;
  left_ = static_cast<std::int64_t>(bursts);
}

void Machine::run() {
  for (std::int32_t s = 0; s < int_size(seats_); ++s) {
    const Time begin_at = casts_[at(seats_[at(s)].job)].begin;
    heap_.push({begin_at, event_key(0, kStepSend, num(seats_[at(s)].seat_class)), -1, s});
  }
  Message arrived;
  while (!heap_.empty()) {
    const Event event = heap_.top();
    heap_.pop();
    begin_instant(event);
    if (event.message < 0) {
      Seat& seat = seats_[at(event.seat)];
      if (!seat.is_busy) {
        begin(event.seat);
        continue;
      }
      seat.is_busy = false;
      const std::int32_t burst = seat.script->steps[at(seat.next_step++)];
      if (keep_slices_)
        steps_.push_back({seat.job, seat.rank, seat.script->bursts[at(burst)].action, seat.step_begin, now_});
      finish(event.seat, burst, seat.step_chain);
      drain(event.seat);
    } else if (wires_.step(event.message, &heap_, &arrived)) {
      const Seat& sender = seats_[at(arrived.from_seat)];
      if (arrived.chain > now_)
        fail(Code::internal, "a message came {} ps before the chain that leads to it", arrived.chain - now_);
      if (arrived.bytes > 0) note_end(seats_[at(arrived.to_seat)], arrived.chain);
      raise(arrived.to_seat, sender.script->sends[at(arrived.send())], *sender.script, arrived.chain);
      drain(arrived.to_seat);
    }
  }
  if (left_ > 0) report_stuck();
}

void Machine::begin_instant(const Event& event) {
  ++events_;
  now_ = event.at;
  round_ = event.key >> kRoundShift;
  wires_.begin_instant(now_, round_);
}

void Machine::begin(std::int32_t s) {
  const Seat& seat = seats_[at(s)];
  for (int b = 0; b < int_size(seat.script->bursts); ++b)
    if (!seat.script->bursts[at(b)].is_step && seat.script->bursts[at(b)].missing == 0) ready_.push(*seat.script, b);
  drain(s);
}

void Machine::note_end(const Seat& seat, Time chain) {
  ends_[at(seat.job)] = std::max(ends_[at(seat.job)], now_);
  chain_ = std::max(chain_, chain);
}

void Machine::raise(std::int32_t s, const Send& send, const Script& sender, Time chain) {
  const Seat& seat = seats_[at(s)];
  const Script& script = *seat.script;
  for (std::int32_t r = send.raises.begin; r < send.raises.end; ++r) {
    const Raise& raised = sender.raises[at(r)];
    for (std::int32_t c = raised.cells.begin; c < raised.cells.end; ++c) {
      Cell& cell = cells_[cell_at(seat, c)];
      const std::uint32_t before = cell.value;
      cell.value += raised.add;
      cell.chain = std::max(cell.chain, chain);
      for (std::int32_t w = script.first_watch[at(c)]; w < script.first_watch[at(c + 1)]; ++w) {
        const Watch& watch = script.watches[at(w)];
        if (before >= watch.at || cell.value < watch.at) continue;
        if (--missing(seat, watch.burst) == 0 && !script.bursts[at(watch.burst)].is_step)
          ready_.push(script, watch.burst);
      }
    }
  }
}

Time Machine::chain_of(const Seat& seat, const Burst& burst) const {
  Time chain = casts_[at(seat.job)].begin;
  for (std::int32_t n = burst.needs.begin; n < burst.needs.end; ++n) {
    const Part cells = seat.script->needs[at(n)].cells;
    for (std::int32_t c = cells.begin; c < cells.end; ++c) chain = std::max(chain, cells_[cell_at(seat, c)].chain);
  }
  return chain;
}

void Machine::drain(std::int32_t s) {
  const Script& script = *seats_[at(s)].script;
  do {
    while (!ready_.empty()) {
      const std::int32_t burst = ready_.pop(script);
      finish(s, burst, chain_of(seats_[at(s)], script.bursts[at(burst)]));
    }
  } while (start_step(s));
}

bool Machine::start_step(std::int32_t s) {
  Seat& seat = seats_[at(s)];
  if (seat.is_busy || at(seat.next_step) == seat.script->steps.size()) return false;
  const std::int32_t b = seat.script->steps[at(seat.next_step)];
  const Burst& burst = seat.script->bursts[at(b)];
  if (missing(seat, b) > 0) return false;
  const Time made_in =
      seat.slower == 1 ? burst.made_in : static_cast<Time>(static_cast<double>(burst.made_in) * seat.slower);
  seat.step_chain = std::max(seat.step_chain, chain_of(seat, burst)) + made_in;
  seat.computed += made_in;
  if (made_in == 0) {
    ++seat.next_step;
    finish(s, b, seat.step_chain);
    return true;
  }
  seat.is_busy = true;
  seat.step_begin = now_;
  heap_.push({now_ + made_in, event_key(0, kStepSend, num(seat.seat_class)), -1, s});
  return false;
}

void Machine::finish(std::int32_t s, std::int32_t b, Time chain) {
  const Seat& seat = seats_[at(s)];
  const Script& script = *seat.script;
  missing(seat, b) = -1;
  --left_;
  if (chain > now_) fail(Code::internal, "an action ended {} ps before the chain that leads to it", chain - now_);
  note_end(seat, chain);
  const Part sends = script.bursts[at(b)].sends;
  const Cast& cast = casts_[at(seat.job)];
  for (std::int32_t i = sends.begin; i < sends.end; ++i) {
    const Send& send = script.sends[at(i)];
    const std::int32_t to = rank_of(seat, send.to);
    if (to == seat.rank) {
      raise(s, send, script, chain);
      continue;
    }
    Message message;
    message.head = message.tail = now_;
    message.chain = chain;
    message.bytes = send.bytes;
    message.key = event_key(0, num(i), num(seat.seat_class));
    message.to = static_cast<std::uint16_t>(cast.node_of[at(to)]);
    message.from_seat = static_cast<std::uint16_t>(s);
    message.to_seat = static_cast<std::uint16_t>(cast.seat_of[at(to)]);
    outbox_.send(message);
  }
  outbox_.end_burst();
}

Time Machine::busiest() const {
  Time most = 0;
  for (const Seat& seat : seats_) most = std::max(most, seat.computed);
  return most;
}

}  // namespace weft::netsim
