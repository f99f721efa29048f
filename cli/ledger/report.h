// The ledgers for people and for programs: a title before anything is measured, then text and one JSON object.
#pragma once

#include <string>
#include <vector>

#include "weft/base/json_out.h"
#include "weft/study/device/device_ledger.h"
#include "weft/study/ledger/advice.h"
#include "weft/study/report/ledger_words.h"

namespace weft::cli::ledger {

using Json = nlohmann::ordered_json;

// What is measured, before anything is: "t-nlg, one block forward, 4 ranks, links of 1 Gbit/s".
std::string title_of(const Workload& workload, bool scaled, int ranks, const AskedLink& link);
std::string title_of(const ModelTask& task);

std::string text_of(const BlockLedger& ledger, const std::string& svg_path);
std::string text_of(const ModelLedger& ledger);
Json json_of(const BlockLedger& ledger, const std::string& svg_path);
Json json_of(const ModelLedger& ledger);
std::string text_of(const DeviceLedger& ledger, const std::string& device);
Json json_of(const DeviceLedger& ledger, const std::string& device);

// What both reports share.
std::string difference_text(double us);           // below the floor is noise, and said so by its sign
std::string rows_text(const LedgerTable& table);  // with bars of one scale; empty columns are left out
std::string crowded_text(const LedgerTable& table);
std::string next_text(const Advice& advice);  // sentences, then commands with a word on each
std::string rounds_text(const LedgerTable& table);
void add_table(const LedgerTable& table, Json* out);  // the setting, then the rows
// JSON keeps the name that panels had at first.
std::string json_name(const std::string& style);

}  // namespace weft::cli::ledger
