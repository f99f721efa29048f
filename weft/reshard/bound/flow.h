// Demands that may be divided among bins of given rates, and the shortest time in which the bins serve them all: a
// parametric maximum flow. Newton's method on minimum cuts finds the time exactly, in a few flows.
#pragma once

#include <map>
#include <utility>
#include <vector>

namespace weft {

struct Demand {
  std::vector<int> bins;  // that may serve it, ascending, at least one
  double amount = 0;
};

// Demands by the bins that may serve them: what may use the same bins is one demand.
class DemandList {
 public:
  // Adds an amount to the demand of these bins, in any order; gives its index. Kinds are kept apart.
  int add(std::vector<int> bins, double amount, int kind = 0);
  const std::vector<Demand>& all() const { return demands_; }

 private:
  std::vector<Demand> demands_;
  std::map<std::pair<int, std::vector<int>>, int> known_;
};

struct Division {
  double time = 0;                         // the least for which all demands fit into time * rate of every bin
  std::vector<std::vector<double>> share;  // of every demand, by position in its bins; they add up to its amount
  // What binds: these bins alone can serve demands of this amount, for which they need just that time. None where the
  // time was given.
  double cut_amount = 0;
  std::vector<int> cut_bins;
};

// The shares form a vertex of the solutions: demands and bins joined by positive shares have no cycle, so that at most
// as many demands are divided as there are bins. A time that is given anyway leaves room to divide fewer.
Division divide(const std::vector<Demand>& demands, const std::vector<double>& rates, double at_least = 0);

}  // namespace weft
