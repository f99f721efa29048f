// Where the data files of Weft are: workloads/, workloads/reshard/, clusters/networks/, clusters/chips/. A name is
// looked for in that folder of, in this order: the environment's WEFT_DATA alone, where it is set; the WEFT_DATA_DIR of
// the build; ../ and ../share/weft/ from the program's folder. What has a '/' or ends in .json is a path.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

inline constexpr std::size_t kMaxDataFileBytes = 1 << 20;

// The path of the file. Throws bad_input, "unknown <what> ...", naming those there are.
std::string find_data_file(std::string_view folder, std::string_view what, const std::string& name_or_path);
// Another file or folder beside those, such as "tools/ledger_torch.py"; empty where there is none.
std::string find_beside_data(std::string_view path);
// Without ".json", of the first of those folders that is there, sorted.
std::vector<std::string> data_file_names(std::string_view folder);

}  // namespace weft
