#include "weft/base/os/line_input.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "weft/base/error.h"

namespace weft {

bool LineInput::take(std::string* line) {
  const std::size_t newline = held_.find('\n');
  if (newline == std::string::npos && (!ended_ || held_.empty())) return false;
  *line = held_.substr(0, newline);
  held_.erase(0, newline == std::string::npos ? held_.size() : newline + 1);
  return true;
}

LineInput::News LineInput::wait(std::chrono::milliseconds patience, std::string* line) {
  if (take(line)) return News::line;
  if (ended_) return News::end;
  pollfd poll_one{fd_, POLLIN, 0};
  const int ready = poll(&poll_one, 1, static_cast<int>(patience.count()));
  if (ready == 0 || (ready < 0 && errno == EINTR)) return News::nothing;
  char bytes[4096];
  const ssize_t count = read(fd_, bytes, sizeof bytes);
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return News::nothing;
  if (count < 0) fail(Code::io, "cannot read lines: {}", std::strerror(errno));
  if (count == 0)
    ended_ = true;
  else
    held_.append(bytes, static_cast<std::size_t>(count));
  if (take(line)) return News::line;
  return ended_ ? News::end : News::nothing;
}

}  // namespace weft
