#include "weft/transport/wire/tls_stream.h"

#include "weft/base/error.h"
#include "weft/base/index.h"
#ifdef WEFT_TLS
#include <netinet/tcp.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>
#endif

namespace weft {

void lacks_tls() {
  bad_input(
      "this Weft was built without OpenSSL, which ranks on several hosts need; install libssl-dev and build again");
}

#ifdef WEFT_TLS
// What OpenSSL calls, with the stream that it is about.
struct TlsCallbacks {
  static int offer_key(SSL* ssl, const EVP_MD*, const unsigned char** identity, std::size_t* identity_bytes,
                       SSL_SESSION** session);
  static int find_key(SSL* ssl, const unsigned char* identity, std::size_t identity_bytes, SSL_SESSION** session);
  static bool more_follows(BIO* bio) {
    return static_cast<const TlsStream*>(BIO_get_app_data(bio))->follows_ == TlsStream::Follows::more;
  }
};

namespace {

constexpr std::uint64_t kPiecesPerKey = 1 << 22;
constexpr std::size_t kReadAhead = 64 << 10;  // received by one call of recv()

// Where the kernel encrypts, OpenSSL calls write(), which would raise a signal where the peer has gone.
int write_without_signal(BIO* bio, const char* data, int bytes) {
  sigset_t pipe, before, pending;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  const int count = BIO_meth_get_write(BIO_s_socket())(bio, data, bytes);
  const int error = errno;
  const timespec now{};
  if (count < 0 && error == EPIPE && sigismember(&pending, SIGPIPE) == 0) sigtimedwait(&pipe, nullptr, &now);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return count;
}

int send_quietly(BIO* bio, const char* data, int bytes) {
#ifndef OPENSSL_NO_KTLS
  if (BIO_get_ktls_send(bio)) return write_without_signal(bio, data, bytes);
#endif
  BIO_clear_retry_flags(bio);
  const int flags = MSG_NOSIGNAL | (TlsCallbacks::more_follows(bio) ? MSG_MORE : 0);
  const ssize_t count = send(BIO_get_fd(bio, nullptr), data, num(bytes), flags);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(count);
}

// The kernel may answer every recv() with an acknowledgement of its own, which takes this rank some 5 us. Told not to,
// it sends it along with what is written next, or 40 ms later.
int receive_without_answer(BIO* bio, char* data, int bytes) {
  const int count = BIO_meth_get_read(BIO_s_socket())(bio, data, bytes);
  const int error = errno, off = 0;
  if (count > 0) setsockopt(BIO_get_fd(bio, nullptr), IPPROTO_TCP, TCP_QUICKACK, &off, sizeof off);
  errno = error;
  return count;
}

// OpenSSL's own socket, but for its read() and write().
BIO_METHOD* quiet_socket() {
  BIO_METHOD* method = BIO_meth_new(BIO_TYPE_SOCKET, "weft socket");
  const BIO_METHOD* plain = BIO_s_socket();
  BIO_meth_set_write(method, send_quietly);
  BIO_meth_set_read(method, receive_without_answer);
  BIO_meth_set_puts(method, BIO_meth_get_puts(plain));
  BIO_meth_set_ctrl(method, BIO_meth_get_ctrl(plain));
  BIO_meth_set_create(method, BIO_meth_get_create(plain));
  BIO_meth_set_destroy(method, BIO_meth_get_destroy(plain));
  return method;
}

std::string last_error() {
  const unsigned long code = ERR_peek_last_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "the connection was closed" : reason;
}

// What an end sees whose peer holds another key, or none.
bool speaks_of_keys(unsigned long code) {
  if (ERR_GET_LIB(code) != ERR_LIB_SSL) return false;
  switch (ERR_GET_REASON(code)) {
    case SSL_R_BINDER_DOES_NOT_VERIFY:
    case SSL_R_BAD_PSK:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
    case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
      return true;
    default:
      return false;
  }
}

SSL_SESSION* session_of(SSL* ssl, const std::string& key) {
  constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};
  SSL_SESSION* session = SSL_SESSION_new();
  const bool made =
      session != nullptr &&
      SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key.data()), key.size()) == 1 &&
      SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, kAes128GcmSha256)) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1;
  if (made) return session;
  SSL_SESSION_free(session);
  return nullptr;
}

SSL_CTX* make_context() {
  SSL_CTX* context = SSL_CTX_new(TLS_method());
  if (context == nullptr) fail(Code::io, "OpenSSL cannot start: {}", last_error());
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256");
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
#ifdef SSL_OP_ENABLE_KTLS
  SSL_CTX_set_options(context, SSL_OP_ENABLE_KTLS);
#endif
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, kReadAhead);
  SSL_CTX_set_psk_use_session_callback(context, TlsCallbacks::offer_key);
  SSL_CTX_set_psk_find_session_callback(context, TlsCallbacks::find_key);
  return context;
}

// For all streams of the process, for ever.
SSL_CTX* context_of_all() {
  static SSL_CTX* const made = make_context();
  return made;
}

}  // namespace

int TlsCallbacks::offer_key(SSL* ssl, const EVP_MD*, const unsigned char** identity, std::size_t* identity_bytes,
                            SSL_SESSION** session) {
  const auto& stream = *static_cast<const TlsStream*>(SSL_get_app_data(ssl));
  *session = session_of(ssl, stream.key_);
  *identity = reinterpret_cast<const unsigned char*>(stream.identity_.data());
  *identity_bytes = stream.identity_.size();
  return *session != nullptr ? 1 : 0;
}

int TlsCallbacks::find_key(SSL* ssl, const unsigned char* identity, std::size_t identity_bytes, SSL_SESSION** session) {
  auto& stream = *static_cast<TlsStream*>(SSL_get_app_data(ssl));
  *session = nullptr;
  try {
    stream.identity_.assign(reinterpret_cast<const char*>(identity), identity_bytes);
    const std::string key = stream.key_of_(stream.identity_);
    if (!key.empty()) *session = session_of(ssl, key);
  } catch (const std::exception&) {  // must not pass through OpenSSL
    return 0;
  }
  return 1;
}

bool tls_available() { return true; }

std::string tls_version() {
  return fmt::format("{}.{}.{}", OPENSSL_version_major(), OPENSSL_version_minor(), OPENSSL_version_patch());
}

TlsStream::TlsStream(Fd socket, KeyOf key_of)
    : socket_(std::move(socket)),
      ssl_(SSL_new(context_of_all())),
      key_of_(std::move(key_of)),
      renew_after_(kPiecesPerKey) {
  static const BIO_METHOD* const method = quiet_socket();
  BIO* bio = BIO_new(method);
  if (ssl_ == nullptr || bio == nullptr) fail(Code::no_memory, "OpenSSL has no memory for a connection");
  BIO_set_fd(bio, socket_.get(), BIO_NOCLOSE);
  BIO_set_app_data(bio, this);
  SSL_set_bio(ssl_, bio, bio);
  SSL_set_app_data(ssl_, this);
}

std::unique_ptr<TlsStream> TlsStream::client(Fd socket, std::string identity, std::string key) {
  std::unique_ptr<TlsStream> stream(new TlsStream(std::move(socket), {}));
  stream->identity_ = std::move(identity);
  stream->key_ = std::move(key);
  SSL_set_verify(stream->ssl_, SSL_VERIFY_PEER, nullptr);  // and no certificate is good enough
  SSL_set_connect_state(stream->ssl_);
  return stream;
}

std::unique_ptr<TlsStream> TlsStream::server(Fd socket, KeyOf key_of) {
  std::unique_ptr<TlsStream> stream(new TlsStream(std::move(socket), std::move(key_of)));
  SSL_set_accept_state(stream->ssl_);
  return stream;
}

TlsStream::~TlsStream() { SSL_free(ssl_); }

TlsStream::Shake TlsStream::shake() {
  if (failed_) return Shake::failed;
  ERR_clear_error();
  errno = 0;
  const int result = SSL_do_handshake(ssl_);
  if (result != 1) {
    key_differs_ = speaks_of_keys(ERR_peek_last_error());
    return judge(result, "the TLS handshake failed") == 0 ? Shake::waiting : Shake::failed;
  }
  wants_to_write_ = false;
  // A session that is taken up again is what TLS calls one by a pre-shared key. Anything else proved nothing.
  if (SSL_session_reused(ssl_) == 1) return Shake::done;
  failed_ = true;
  problem_ = "it proved no key";
  return Shake::failed;
}

// What a call that moved nothing says: 0 or -1, as read() and write() do.
std::ptrdiff_t TlsStream::judge(int result, const char* doing) {
  const int system_error = errno;
  const int error = SSL_get_error(ssl_, result);
  wants_to_write_ = error == SSL_ERROR_WANT_WRITE;
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return 0;
  const unsigned long code = ERR_peek_last_error();
#ifdef SSL_R_UNEXPECTED_EOF_WHILE_READING
  hung_up_ = ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
#endif
  hung_up_ = hung_up_ || (error == SSL_ERROR_SYSCALL && system_error != ECONNREFUSED);
  if (!failed_ && error != SSL_ERROR_ZERO_RETURN)
    problem_ = fmt::format(
        "{}: {}", doing,
        error == SSL_ERROR_SYSCALL && code == 0 && system_error != 0 ? std::strerror(system_error) : last_error());
  failed_ = true;
  return -1;
}

std::ptrdiff_t TlsStream::read(std::span<std::byte> to) {
  if (failed_) return -1;
  ERR_clear_error();
  errno = 0;
  std::size_t count = 0;
  const int result = SSL_read_ex(ssl_, to.data(), to.size(), &count);
  return result == 1 ? static_cast<std::ptrdiff_t>(count) : judge(result, "its connection broke");
}

std::ptrdiff_t TlsStream::write(std::span<const std::byte> from, Follows follows) {
  if (failed_) return -1;
  follows_ = follows;
  if (pieces_ >= renew_after_ && !wants_to_write_) renew_key();
  ERR_clear_error();
  errno = 0;
  std::size_t count = 0;
  const int result = SSL_write_ex(ssl_, from.data(), std::min(from.size(), kRecord), &count);
  follows_ = Follows::nothing;
  if (result != 1) return judge(result, "its connection broke");
  wants_to_write_ = false;
  ++pieces_;
  return static_cast<std::ptrdiff_t>(count);
}

// The kernel keeps the key it was given.
void TlsStream::renew_key() {
  pieces_ = 0;
#ifndef OPENSSL_NO_KTLS
  if (BIO_get_ktls_send(SSL_get_wbio(ssl_))) return;
#endif
  if (SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED) == 1) ++keys_used_;
}

bool TlsStream::has_more() const { return SSL_has_pending(ssl_) == 1; }

void TlsStream::finish() {
  if (!failed_ && SSL_is_init_finished(ssl_) == 1) {
    ERR_clear_error();
    SSL_shutdown(ssl_);
  }
  shutdown(socket_.get(), SHUT_WR);
}

#else
bool tls_available() { return false; }
std::string tls_version() { return {}; }
std::unique_ptr<TlsStream> TlsStream::client(Fd, std::string, std::string) { lacks_tls(); }
std::unique_ptr<TlsStream> TlsStream::server(Fd, KeyOf) { lacks_tls(); }
TlsStream::TlsStream(Fd, KeyOf) : renew_after_(0) {}
TlsStream::~TlsStream() = default;
TlsStream::Shake TlsStream::shake() { return Shake::failed; }
std::ptrdiff_t TlsStream::read(std::span<std::byte>) { return -1; }
std::ptrdiff_t TlsStream::write(std::span<const std::byte>, Follows) { return -1; }
bool TlsStream::has_more() const { return false; }
void TlsStream::finish() {}
#endif

}  // namespace weft
