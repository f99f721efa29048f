#include "weft/io/tensor/npy.h"

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/io/fuzz_test.h"
#include "weft/io/scratch_folder_test.h"

namespace weft {
namespace {

std::string npy(const std::string& header, const std::string& data, char version = 1) {
  std::string file = std::string("\x93NUMPY") + version + '\0' + static_cast<char>(header.size()) + '\0';
  if (version > 1) file += std::string(2, '\0');
  return file + header + data;
}

TEST(Npy, WhatIsWrittenIsReadBack) {
  const ScratchFolder folder;
  const std::vector<float> values = {1, -2, 3.5f, 0, 1e-40f, 6};
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{2, 3}, {6}, {1, 6, 1}}) {
    write_npy(folder.file("x.npy"), shape, values.data());
    const NpyArray read = read_npy(folder.file("x.npy"));
    EXPECT_EQ(read.shape, shape);
    EXPECT_EQ(read.values, values);
  }
  write_npy(folder.file("s.npy"), {}, values.data());
  EXPECT_EQ(read_npy(folder.file("s.npy")).values, std::vector<float>{1});
  EXPECT_EQ(std::filesystem::file_size(folder.file("x.npy")), 128u + 24) << "data begin at a multiple of 64";
}

TEST(Npy, WhatNumpyWroteIsRead) {
  const NpyArray rows = read_npy(WEFT_SOURCE "/models/weft-16/golden/rows-1.npy");
  EXPECT_EQ(rows.shape.back(), 8192);
  EXPECT_EQ(rows.values.size(), 8192u);
}

TEST(Npy, WhatIsNotF32InCOrderIsRefusedNamingTheField) {
  const ScratchFolder folder;
  const std::string path = folder.file("x.npy");
  const auto said = [&](const std::string& bytes) {
    folder.write("x.npy", bytes);
    const std::string message = refusal([&] { read_npy(path); });
    return message.rfind(path + ": ", 0) == 0 ? message.substr(path.size() + 2) : "(no path) " + message;
  };
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";
  folder.write("x.npy", npy(good, "abcdefgh", 2));
  EXPECT_EQ(read_npy(path).values.size(), 2u);
  EXPECT_EQ(said("abc"), "does not begin as .npy files do; give one");
  EXPECT_EQ(said(npy(good, "abcd")), "\"shape\" is 8 bytes, the file has 4");
  EXPECT_EQ(said(npy(good, "abcdefgh", 4)), "format version 4; versions 1 to 3 are read");
  EXPECT_EQ(said(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", "")),
            "\"descr\" is \"<f8\"; give an array of little-endian float32 (\"<f4\")");
  EXPECT_EQ(said(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }", "")),
            "\"fortran_order\" is True; save it in C order");
  EXPECT_EQ(said(npy("{'descr': '<f4', 'fortran_order': 1, 'shape': (2,), }", "")),
            "\"fortran_order\" is neither True nor False");
  EXPECT_EQ(said(npy("{'descr': '<f4', 'fortran_order': False}", "")), "\"shape\" is missing from the header");
  EXPECT_EQ(said(npy("{'descr': '<f4', 'shape': (-2,), }", "")),
            "\"shape\" has something else than up to 32 whole numbers");
  EXPECT_EQ(said(npy("{'descr': '<f4', 'shape': (4611686018427387904, 8)}", "")),
            "\"shape\" is more bytes than 64 bits can count");
  EXPECT_EQ(said(npy("{'descr': [('a', '<f4')], 'shape': (2,)}", "")),
            "no ''' in the header where one should be; this is no .npy file");
  EXPECT_EQ(said(npy("{'weft': '<f4'}", "")), "the header has a field \"weft\" that .npy files have not");
}

TEST(Npy, MutantsAreTakenOrRefused) {
  const ScratchFolder folder;
  const FuzzCounts counts =
      fuzz(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n", std::string(24, 'a')), 4000,
           [&](const std::string& mutant) { read_npy(folder.write("x", mutant)); });
  EXPECT_GT(counts.taken, 100);
  EXPECT_GT(counts.refused, 2000);
}

}  // namespace
}  // namespace weft
