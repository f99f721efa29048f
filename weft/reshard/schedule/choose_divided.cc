#include "weft/reshard/schedule/choose_divided.h"

#include <algorithm>
#include <cmath>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/reshard/bound/assign.h"

namespace weft {
namespace {

int rank_at(const std::vector<Site>& sites, int nic) {
  for (const Site& site : sites)
    for (const Door& door : site.doors)
      if (door.nic == nic) return door.rank;
  return -1;
}

// The bin at a fraction of the way along the spans, which together are `size`.
int bin_at(const std::vector<Span>& spans, double fraction, double size) {
  double position = fraction * size;
  for (const Span& span : spans) {
    if (position < span.size) return span.bin;
    position -= span.size;
  }
  return spans.back().bin;
}

void add_cuts(const std::vector<Span>& spans, double size, std::vector<double>& cuts) {
  double position = 0;
  for (std::size_t i = 0; i + 1 < spans.size(); ++i) cuts.push_back((position += spans[i].size) / size);
}

enum class Relays { in_chains, as_divided };

class Chooser {
 public:
  Chooser(const TaskSet& set, const Loads& loads) : set_(set), loads_(loads), rates_(nic_rates(set.network())) {}

  std::vector<Slice> run() {
    assign_entries();
    if (set_.strategy != Strategy::broadcast) {
      assign_senders();
    } else {
      assign_egress(Relays::in_chains);
      if (!fits_in_chains()) assign_egress(Relays::as_divided);
    }
    std::vector<Slice> slices;
    for (int i = 0; i < set_.size(); ++i) add_slices(i, slices);
    return slices;
  }

 private:
  double bytes(int task) const { return static_cast<double>(set_.task(task).bytes); }

  // Who sends each task out of its hosts; with `relays` also who sends its other copies, as the bound divides them: a
  // copy an item, layer upon layer over the bytes of the task.
  void assign_egress(Relays relays) {
    std::vector<Item> items;
    std::vector<int> owner;
    for (int i = 0; i < set_.size(); ++i) {
      const int id = set_.table.id(i);
      const std::size_t copies = set_.sites(i).wanting.size();
      for (std::size_t copy = 0; copy < (relays == Relays::as_divided ? copies : std::min<std::size_t>(copies, 1));
           ++copy)
        items.push_back({copy == 0 ? loads_.first[at(id)] : loads_.rest[at(id)], bytes(i)}), owner.push_back(i);
    }
    auto spans = assign(items, loads_.egress_demands, loads_.egress, rates_);
    first_.assign(set_.tasks.size(), {});
    if (relays == Relays::as_divided) rest_.resize(set_.tasks.size());
    for (std::size_t k = 0; k < items.size(); ++k)
      if (k == 0 || owner[k - 1] != owner[k])
        first_[at(owner[k])] = std::move(spans[k]);
      else
        rest_[at(owner[k])].push_back(std::move(spans[k]));
  }

  // For strategies whose sender sends all copies: only ranks that hold the box can, and it weighs all its copies.
  void assign_senders() {
    DemandList demands;
    std::vector<Item> items;
    std::vector<int> owner;
    for (int i = 0; i < set_.size(); ++i) {
      if (set_.sites(i).wanting.empty()) continue;
      std::vector<int> nics;
      for (const int rank : set_.task(i).senders) nics.push_back(set_.network().nic_of[at(rank)]);
      const double size = bytes(i) * copies_sent(set_.strategy, set_.sites(i));
      items.push_back({demands.add(nics, size), size});
      owner.push_back(i);
    }
    first_.resize(set_.tasks.size());
    auto spans = assign(items, demands.all(), divide(demands.all(), rates_), rates_);
    for (std::size_t k = 0; k < items.size(); ++k) {
      for (Span& span : spans[k]) span.size *= bytes(owner[k]) / items[k].size;
      first_[at(owner[k])] = std::move(spans[k]);
    }
  }

  void assign_entries() {
    std::vector<Item> items;
    for (int i = 0; i < set_.size(); ++i)
      for (const int demand : loads_.entry[at(set_.table.id(i))]) items.push_back({demand, bytes(i)});
    auto spans = assign(items, loads_.ingress_demands, loads_.ingress, rates_);
    std::size_t k = 0;
    for (int i = 0; i < set_.size(); ++i) {
      entry_.emplace_back();
      for (std::size_t s = 0; s < set_.sites(i).wanting.size(); ++s) entry_.back().push_back(std::move(spans[k++]));
    }
  }

  // Chains: every host but one sends on what it takes in, by the NIC it came in by. The last is the one whose NIC has
  // most to send. Whether no NIC then sends longer than the bound.
  bool fits_in_chains() {
    std::vector<double> load(rates_.size(), 0.0);
    for (const std::vector<Span>& spans : first_)
      for (const Span& span : spans) load[at(span.bin)] += span.size;
    last_.assign(set_.tasks.size(), 0);
    for (const int i : largest_first(set_.tasks)) {
      const std::vector<std::vector<Span>>& entries = entry_[at(i)];
      if (entries.size() < 2) continue;
      const auto busy = [&](const std::vector<Span>& spans) {
        double most = 0;
        for (const Span& span : spans) most = std::max(most, load[at(span.bin)] / rates_[at(span.bin)]);
        return most;
      };
      std::size_t last = entries.size() - 1;
      for (std::size_t s = entries.size(); s-- > 0;)
        if (busy(entries[s]) > busy(entries[last])) last = s;
      last_[at(i)] = static_cast<int>(last);
      for (std::size_t s = 0; s < entries.size(); ++s)
        if (s != last)
          for (const Span& span : entries[s]) load[at(span.bin)] += span.size;
    }
    for (std::size_t b = 0; b < load.size(); ++b)
      if (load[b] > rates_[b] * loads_.seconds() * (1 + 1e-9)) return false;
    return true;
  }

  void add_slices(int i, std::vector<Slice>& slices) const {
    const Task& task = set_.task(i);
    if (set_.sites(i).wanting.empty()) {
      slices.push_back({i, task.box, {}, {}});
      return;
    }
    std::vector<double> cuts;
    add_cuts(first_[at(i)], bytes(i), cuts);
    if (set_.strategy == Strategy::broadcast)
      for (const std::vector<Span>& spans : entry_[at(i)]) add_cuts(spans, bytes(i), cuts);
    if (!rest_.empty())
      for (const std::vector<Span>& spans : rest_[at(i)]) add_cuts(spans, bytes(i), cuts);
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end(), [](double a, double b) { return b - a < 1e-9; }), cuts.end());
    std::erase_if(cuts, [](double f) { return f < 1e-9 || f > 1 - 1e-9; });
    const std::vector<Box> boxes = cut_at(task.box, cuts);
    for (std::size_t k = 0; k < boxes.size(); ++k) {
      const double begin = k == 0 ? 0 : cuts[k - 1], end = k == cuts.size() ? 1 : cuts[k];
      if (!boxes[k].empty()) slices.push_back(slice_at(i, boxes[k], (begin + end) / 2));
    }
  }

  Slice slice_at(int i, const Box& box, double fraction) const {
    const Sites& sites = set_.sites(i);
    Slice slice{i, box, {{rank_at(sites.holding, bin_at(first_[at(i)], fraction, bytes(i))), 1}}, {}};
    for (const std::vector<Span>& spans : entry_[at(i)])
      slice.entry.push_back(rank_at(sites.wanting, bin_at(spans, fraction, bytes(i))));
    const auto add_copy = [&](int rank) {
      for (Outlet& outlet : slice.outlets)
        if (outlet.rank == rank) return void(++outlet.copies);
      slice.outlets.push_back({rank, 1});
    };
    if (!rest_.empty()) {
      for (const std::vector<Span>& spans : rest_[at(i)]) {
        const int nic = bin_at(spans, fraction, bytes(i));
        const int holder = rank_at(sites.holding, nic);
        add_copy(holder >= 0 ? holder : rank_at(sites.wanting, nic));
      }
    } else if (!last_.empty()) {
      for (int s = 0; s < int_size(slice.entry); ++s)
        if (s != last_[at(i)]) add_copy(slice.entry[at(s)]);
    }
    return slice;
  }

  const TaskSet& set_;
  const Loads& loads_;
  std::vector<double> rates_;
  std::vector<std::vector<Span>> first_;               // by task
  std::vector<std::vector<std::vector<Span>>> entry_;  // by task and wanting site
  std::vector<std::vector<std::vector<Span>>> rest_;   // by task and copy; empty where chains do
  std::vector<int> last_;                              // by task: the wanting site that ends its chain
};

}  // namespace

std::vector<Box> cut_at(const Box& box, const std::vector<double>& fractions) {
  if (fractions.empty() || box.dims == 0) {
    std::vector<Box> whole(fractions.size() + 1, box);
    for (std::size_t i = 1; i < whole.size(); ++i) whole[i].lo[0] = 1, whole[i].hi[0] = 0, whole[i].dims = 1;  // empty
    return whole;
  }
  const auto is_index = [&](int dim) {
    return std::all_of(fractions.begin(), fractions.end(), [&](double f) {
      const double index = f * box.size(dim);
      return std::abs(index - std::round(index)) < 1e-6;
    });
  };
  int dim = 0;
  while (dim < box.dims && !is_index(dim)) ++dim;
  if (dim == box.dims) {
    dim = 0;
    for (int d = 1; d < box.dims; ++d)
      if (box.size(d) > box.size(dim)) dim = d;
  }
  std::vector<Box> boxes;
  std::int64_t begin = box.lo[dim];
  for (std::size_t i = 0; i <= fractions.size(); ++i) {
    boxes.push_back(box);
    boxes.back().lo[dim] = begin;
    if (i < fractions.size())
      boxes.back().hi[dim] = box.lo[dim] + std::llround(fractions[i] * static_cast<double>(box.size(dim)));
    begin = boxes.back().hi[dim];
  }
  return boxes;
}

std::vector<Slice> choose_divided(const TaskSet& set, const Loads& loads) { return Chooser(set, loads).run(); }

}  // namespace weft
