#include "weft/schedule/save.h"

#include <charconv>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/base/json_out.h"

namespace weft::pipeline {
namespace {

constexpr std::string_view kLetters = "fbiwr";  // in the order of Work
constexpr std::size_t kMostText = std::size_t{256} << 20;

bool read_number(std::string_view* text, int* number) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc() || *number < 0) return false;
  text->remove_prefix(num(end - text->data()));
  return true;
}

bool parse_item(std::string_view text, WorkItem* item) {
  const std::size_t work = text.empty() ? std::string_view::npos : kLetters.find(text.front());
  if (work == std::string_view::npos) return false;
  item->work = static_cast<Work>(work);
  text.remove_prefix(1);
  if (!read_number(&text, &item->micro_batch)) return false;
  if (text.empty()) return true;
  if (text.front() != '.') return false;
  text.remove_prefix(1);
  return read_number(&text, &item->chunk) && text.empty();
}

std::vector<WorkItem> parse_stage(const Json& list, int stage, std::string_view where) {
  if (!list.is_array()) bad_input("{}: \"items\" of stage {} are no array; give its items in order", where, stage);
  std::vector<WorkItem> items;
  for (const Json& value : list) {
    WorkItem item;
    if (!value.is_string() || !parse_item(value.get_ref<const std::string&>(), &item))
      bad_input("{}: stage {}, item {} is {}; give f, b, i, w or r and the micro-batch, as \"f3\" or \"f3.1\"", where,
                stage, items.size(), value.dump().substr(0, 40));
    items.push_back(item);
  }
  return items;
}

}  // namespace

std::string to_text(const WorkItem& item) {
  const char letter = kLetters[at(item.work)];
  return item.chunk == 0 ? fmt::format("{}{}", letter, item.micro_batch)
                         : fmt::format("{}{}.{}", letter, item.micro_batch, item.chunk);
}

std::string to_json(const Schedule& schedule) {
  nlohmann::ordered_json out{{"name", schedule.name},
                             {"stages", schedule.num_stages()},
                             {"micro_batches", schedule.num_micro_batches},
                             {"chunks", schedule.num_chunks}};
  auto& lists = out["items"] = nlohmann::ordered_json::array();
  for (const auto& items : schedule.stages) {
    auto list = nlohmann::ordered_json::array();
    for (const WorkItem& item : items) list.push_back(to_text(item));
    lists.push_back(std::move(list));
  }
  return json_line(out);
}

Schedule parse_schedule(std::string_view json, std::string_view where) {
  const Json object = parse_json(json, where, {.bytes = kMostText});
  check_fields(object, {"name", "stages", "micro_batches", "chunks", "items"}, where);
  Schedule schedule;
  schedule.name = get_string(object, "name", where);
  schedule.num_micro_batches = get_small(object, "micro_batches", where, 1, kMaxMicroBatches);
  schedule.num_chunks = get_small(object, "chunks", where, 1, kMaxChunks);
  const auto stages = get_int(object, "stages", where, 1, kMaxStages);
  const Json& lists = get_array(object, "items", where);
  if (std::ssize(lists) != stages)
    bad_input("{}: \"items\" has {} lists, but \"stages\" is {}; give one list per stage", where, lists.size(), stages);
  for (const Json& list : lists) schedule.stages.push_back(parse_stage(list, schedule.num_stages(), where));
  try {
    check_sizes(schedule.num_stages(), schedule.num_micro_batches, schedule.num_chunks);
  } catch (const Error& error) {
    bad_input("{}: {}", where, error.what());
  }
  return schedule;
}

Schedule load_schedule(const std::string& path) { return parse_schedule(read_text_file(path, kMostText), path); }

}  // namespace weft::pipeline
