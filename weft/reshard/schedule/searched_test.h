// An instance with all that planners look at, for tests of searches and choices.
#pragma once

#include "weft/reshard/cases_test.h"
#include "weft/reshard/schedule/choose.h"

namespace weft {

struct Searched {
  Instance instance;
  std::vector<Task> all;
  SiteTable table;
  Resources resources;
  TaskSet set;

  explicit Searched(const Instance& given, Strategy strategy = Strategy::broadcast)
      : instance(given),
        all(tasks(instance.reshard)),
        table(all, instance.network),
        resources(instance.network),
        set{all, table, resources, strategy} {}
  Searched(const Searched&) = delete;
};

}  // namespace weft
