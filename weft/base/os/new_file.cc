#include "weft/base/os/new_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as the kernel follows

[[noreturn]] void cannot_write(const std::string& path, int error, std::string_view remedy = {}) {
  const bool machine = error == ENOSPC || error == EDQUOT || error == EIO || error == EMFILE || error == ENFILE;
  if (machine) fail(Code::io, "cannot write \"{}\": {}", path, std::strerror(error));
  bad_input("cannot write \"{}\": {}; {}", path, std::strerror(error),
            remedy.empty() ? "name a file in a folder that is there and yours" : remedy);
}

// Where links lead, and what is there.
struct Resolved {
  std::string path;
  std::optional<struct stat> there;  // none: nothing yet
  bool in_proc = false;              // a kernel's file, as the descriptors that /dev/stdout leads to
  std::optional<int> own;            // one of them is this process's own

  bool in_place() const { return in_proc || (there && !S_ISREG(there->st_mode)); }
};

std::optional<int> own_descriptor(const fs::path& folder, const std::string& name) {
  int number = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc{} || end != name.data() + name.size()) return {};
  const std::string process = fmt::format("/proc/{}/", ::getpid());
  if (folder != process + "fd" && folder != fmt::format("{}task/{}/fd", process, ::gettid())) return {};
  return number;
}

Resolved resolve(const std::string& given) {
  if (given.empty()) bad_input("cannot write \"\": this names no file; give a path");
  fs::path path = given;
  for (int links = 0; links <= kMostLinks; ++links) {
    std::error_code error;
    const fs::path folder = fs::canonical(path.has_parent_path() ? path.parent_path() : ".", error);
    if (error) cannot_write(given, error.value());
    Resolved place{.path = path.string(), .in_proc = folder.string().starts_with("/proc/")};
    if (place.in_proc) place.own = own_descriptor(folder, path.filename().string());
    struct stat found {};
    const bool there = (place.in_proc ? ::stat : ::lstat)(place.path.c_str(), &found) == 0;
    if (!there && errno != ENOENT) cannot_write(given, errno);
    if (there) place.there = found;
    if (there && S_ISDIR(found.st_mode)) bad_input("cannot write \"{}\": it is a folder; name a file", given);
    if (!there && !path.has_filename()) cannot_write(given, ENOENT);  // "new/"
    if (!there || !S_ISLNK(found.st_mode)) return place;
    path = folder / fs::read_symlink(path, error);
    if (error) cannot_write(given, error.value());
  }
  cannot_write(given, ELOOP);
}

// A pipe without a reader would keep us waiting for one: it is refused.
Fd open_in_place(const Resolved& place, const std::string& given) {
  Fd file(place.own ? ::fcntl(*place.own, F_DUPFD_CLOEXEC, 3)
                    : ::open(place.path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file && errno == ENXIO && place.there && S_ISFIFO(place.there->st_mode))
    cannot_write(given, errno, "nobody reads this pipe: start its reader first");
  if (!file) cannot_write(given, errno, "name a plain file");
  if (!place.own) ::fcntl(file.get(), F_SETFL, ::fcntl(file.get(), F_GETFL) & ~O_NONBLOCK);
  return file;
}

// mkstemp, but with permissions as the umask has them: no thread can ask for the umask without changing it.
Fd make_aside(const std::string& target, std::string* name) {
  const fs::path path = target;
  std::random_device random;
  for (int tries = 0; tries < 100; ++tries) {
    *name = (path.parent_path() / fmt::format("{:.200}.{:08x}.part", path.filename().string(), random())).string();
    Fd file(::open(name->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (file || errno != EEXIST) return file;
  }
  return Fd();
}

}  // namespace

NewFile::NewFile(std::string path, std::optional<mode_t> mode) : path_(std::move(path)) {
  const Resolved place = resolve(path_);
  target_ = place.path;
  if (place.in_place()) {
    file_ = open_in_place(place, path_);
    return;
  }
  if (place.there && ::access(target_.c_str(), W_OK) != 0) cannot_write(path_, errno);
  if (place.there && !mode) mode = place.there->st_mode & 0777;
  open_aside(mode);
  // Where root writes a user's file it stays the user's. Nobody else may give files away, and need not.
  if (place.there && ::fchown(file_.get(), place.there->st_uid, place.there->st_gid) != 0) errno = 0;
}

void NewFile::open_aside(std::optional<mode_t> mode) {
  file_ = make_aside(target_, &aside_);
  if (!file_) {
    aside_.clear();
    cannot_write(path_, errno);
  }
  if (!mode || ::fchmod(file_.get(), *mode) == 0) return;
  const int error = errno;
  ::unlink(aside_.c_str());
  cannot_write(path_, error);
}

NewFile::~NewFile() {
  if (!aside_.empty()) ::unlink(aside_.c_str());
}

void NewFile::write(const void* data, std::size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(file_.get(), next, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) refuse();
    next += written;
    bytes -= num(written);
  }
}

void NewFile::commit() {
  if (!aside_.empty() && ::fsync(file_.get()) != 0) refuse();
  // Closed by hand: some file systems say only here that the disk is full.
  if (::close(file_.release()) != 0 && errno != EINTR) refuse();
  if (!aside_.empty() && std::rename(aside_.c_str(), target_.c_str()) != 0) refuse();
  aside_.clear();
}

void NewFile::refuse() const { fail(Code::io, "cannot write \"{}\": {}", path_, std::strerror(errno)); }

void write_file(const std::string& path, std::string_view text, std::optional<mode_t> mode) {
  NewFile file(path, mode);
  file.write(text);
  file.commit();
}

void check_writable(const std::string& path) {
  const Resolved place = resolve(path);
  if (!place.in_place())
    NewFile{path};
  else if (!place.own && ::access(place.path.c_str(), W_OK) != 0)
    cannot_write(path, errno);
}

bool is_written_in_place(const std::string& path) { return resolve(path).in_place(); }

}  // namespace weft
