#include "core/api/service/control.h"

#include <atomic>

#include "core/api/service/commands.h"
#include "core/api/service/socket_directory.h"
#include "core/base/options.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/files.h"
#include "core/os/kernel/ids.h"
#include "core/os/kernel/wait.h"
#include "core/os/process/process.h"
#include "core/os/process/socket.h"

namespace seemalloc {

namespace {

constexpr long kWouldBlock = -11;  // -EAGAIN
// After a failed accept (out of descriptors) the waiting client would immediately wake the helper
// thread again and again.
constexpr uint64_t kAcceptPauseNs = kSecondNs;
// How often the file's existence is checked (one system call), and a socket that could not be
// created is tried again.
constexpr uint64_t kCheckFileIntervalNs = 2 * kSecondNs, kTryAgainNs = 5 * kSecondNs;
// Time-outs: for a client that reads nothing of its answer or has sent half a line; and from the
// connection to the proof.
constexpr uint64_t kIncompleteTimeoutNs = 5 * kSecondNs, kProofTimeoutNs = 10 * kSecondNs;
// For one whole answer: its memory is taken from the program.
constexpr uint64_t kAnswerTimeoutNs = 30 * kSecondNs;
// When all slots are taken, a new connection gets the slot of one that has done nothing for this
// long: it was idle, or sent half a line, or has not proven itself since it connected. The tool
// connects again.
constexpr uint64_t kIdleBeforeEvictionNs = 100 * kMillisecondNs;
// The same for one that has read nothing of its answer.
constexpr uint64_t kStalledBeforeEvictionNs = 500 * kMillisecondNs;
// One that has not proven itself in this time is evicted before the others.
constexpr uint64_t kProofOverdueNs = kSecondNs;

// The process that created the socket file; 0: none. A forked child must not remove its parent's.
std::atomic<int> socket_process{0};
// The path of that file; written while socket_process is 0.
char socket_path[options::kMaxTextBytes + 64];
os::FileIdentity socket_file;

// A wait that takes less time than this has ended early.
uint64_t expected_wait_ns(uint64_t timeout_ns) {
  return (timeout_ns < kMillisecondNs ? timeout_ns : kMillisecondNs) / 2;
}

uint64_t since(uint64_t then_ns, uint64_t now_ns) {
  return now_ns > then_ns ? now_ns - then_ns : 0;
}

}  // namespace

// ---- the socket itself ----

void Control::keep_open() {
  unsigned user = os::effective_user();
  uint64_t now_ns = os::coarse_monotonic_ns();
  if (user == user_ && now_ns < check_file_again_ns_ && (listener_.fd < 0 || listener_.is_ours()))
    return;
  check_file_again_ns_ = now_ns + kCheckFileIntervalNs;
  if (listener_.fd >= 0) {
    if (user == user_ && listener_.is_ours() && os::identity(socket_path) == socket_file) return;
    listener_.close();
    forget_socket();
    if (!remove_socket()) return;  // the process is ending
  }
  if (user != user_) {
    for (Client& client : clients_) disconnect(client);
  }
  user_ = user;
  if (options::get(options::Id::socket) == 0 || os::is_privileged()) return;
  open();
  if (listener_.fd < 0) check_file_again_ns_ = now_ns + kTryAgainNs;
}

void Control::open() {
  Text path(socket_path, sizeof(socket_path));
  int fd = open_socket(path);
  if (fd < 0) return;
  listener_.set(fd);
  socket_file = os::identity(socket_path);
  socket_process.store(os::process_id(), std::memory_order_release);
}

void Control::forget() {
  // Closed, not only forgotten: an inherited connection would keep the parent's client waiting.
  listener_.close();
  forget_socket();
  for (Client& client : clients_) disconnect(client);
  check_file_again_ns_ = 0;
}

bool remove_socket() {
  int process = socket_process.load(std::memory_order_acquire);
  if (process == 0 || process != os::process_id()) return false;
  if (!socket_process.compare_exchange_strong(process, 0, std::memory_order_acq_rel)) return false;
  if (os::identity(socket_path) == socket_file) os::remove_file(socket_path);
  return true;
}

// ---- connections ----

void Control::disconnect(Client& client) {
  // Nothing is written: in a child of fork the page would be copied.
  if (client.descriptor.fd < 0) return;
  client.reply.clear();
  client.proof.close();
  client.authenticated = false;
  client.length = 0;
  client.descriptor.close();
}

// Whether `a` is evicted before `b`.
bool Control::is_evicted_before(const Client& a, const Client& b, uint64_t now_ns) {
  auto is_overdue = [now_ns](const Client& client) {
    return !client.authenticated && since(client.active_ns, now_ns) >= kProofOverdueNs;
  };
  return is_overdue(a) == is_overdue(b) ? a.active_ns < b.active_ns : is_overdue(a);
}

// A free slot, or the slot of a client that is idle or stalled. Null if all are busy. Root takes
// the slots that others cannot take first.
Control::Client* Control::slot_for(unsigned user, uint64_t now_ns) {
  Client* victim = nullptr;
  for (unsigned i = user == 0 ? kClients : kSlots; i-- != 0;) {
    Client& client = clients_[i];
    if (client.descriptor.fd < 0) return &client;
    uint64_t idle_ns = since(client.active_ns, now_ns);
    if (idle_ns < (client.reply.is_pending() ? kStalledBeforeEvictionNs : kIdleBeforeEvictionNs))
      continue;
    if (victim == nullptr || is_evicted_before(client, *victim, now_ns)) victim = &client;
  }
  if (victim != nullptr) disconnect(*victim);
  return victim;
}

void Control::accept_client() {
  unsigned user = 0;
  int fd = os::accept_unix(listener_.fd, &user);
  uint64_t now_ns = os::monotonic_ns();
  if (fd < 0) {
    accept_again_ns_ = now_ns + kAcceptPauseNs;
    return;
  }
  Client* client = slot_for(user, now_ns);
  if (client == nullptr) {
    constexpr char kRefusal[] = "error too many connections\n";
    os::send_now(fd, kRefusal, sizeof(kRefusal) - 1);
    os::close_file(fd);
    return;
  }
  client->descriptor.set(fd);
  client->active_ns = now_ns;
}

// The age of an unproven client counts from its connection, whatever it sends.
void Control::note_activity(Client& client, uint64_t now_ns) {
  if (client.authenticated) client.active_ns = now_ns;
}

bool Control::has_time_left(const Client& client, uint64_t now_ns) {
  uint64_t idle_ns = since(client.active_ns, now_ns);
  if (!client.authenticated) return idle_ns < kProofTimeoutNs;
  if (client.reply.is_pending())
    return idle_ns < kIncompleteTimeoutNs && since(client.requested_ns, now_ns) < kAnswerTimeoutNs;
  return client.length == 0 || idle_ns < kIncompleteTimeoutNs;
}

// Sends more of a pending answer in each round: poll reports a socket writable only once most of
// its buffer has been read.
bool Control::serve_client(Client& client, uint64_t now_ns) {
  if (client.reply.is_pending()) {
    if (!client.descriptor.is_ours() || !send_reply(client, now_ns) ||
        !answer_lines(client, now_ns))
      return false;
  } else if (client.ready) {
    if (!client.descriptor.is_ours() || !read_client(client, now_ns)) return false;
  }
  return has_time_left(client, now_ns);
}

bool Control::read_client(Client& client, uint64_t now_ns) {
  long received = os::receive_now(client.descriptor.fd, client.line + client.length,
                                  kMaxLine - 1 - client.length);
  if (received == kWouldBlock) return true;
  if (received <= 0) return false;
  // A line that arrives byte by byte gets no extra time.
  if (client.length == 0) note_activity(client, now_ns);
  client.has_moved = true;
  client.length += static_cast<unsigned>(received);
  return answer_lines(client, now_ns);
}

// Answers all complete lines, until an answer cannot be sent at once.
bool Control::answer_lines(Client& client, uint64_t now_ns) {
  while (!client.reply.is_pending()) {
    unsigned end = 0;
    while (end < client.length && client.line[end] != '\n') end++;
    if (end == client.length) return client.length < kMaxLine - 1;  // no command is longer
    client.line[end] = 0;
    client.requested_ns = now_ns;
    note_activity(client, now_ns);
    if (!run_line(client, client.line)) return false;
    for (unsigned i = end + 1; i < client.length; i++) client.line[i - end - 1] = client.line[i];
    client.length -= end + 1;
    // The program may have closed it meanwhile.
    if (!client.descriptor.is_ours() || !send_reply(client, now_ns)) return false;
  }
  return true;
}

bool Control::send_reply(Client& client, uint64_t now_ns) {
  size_t bytes = 0;
  Reply::SendResult sent = client.reply.send(client.descriptor.fd, &bytes);
  if (bytes != 0) note_activity(client, now_ns);
  client.has_moved |= bytes != 0;
  return sent != Reply::SendResult::kDisconnected;
}

bool Control::run_line(Client& client, char* line) {
  constexpr char kProve[] = "prove";
  constexpr size_t kLength = sizeof(kProve) - 1;
  if (text_equal(line, kProve)) return authenticate(client, "");
  if (text_equal(line, kLength, kProve) && line[kLength] == ' ')
    return authenticate(client, line + kLength + 1);
  if (client.authenticated) {
    run_command(client.reply, line);
  } else {
    client.reply.error(
        "permission denied: prove first that you may inspect this process (a seemalloc of this library's version does)");
  }
  return true;
}

// A wrong secret ends the connection: there is one guess.
bool Control::authenticate(Client& client, const char* secret) {
  if (*secret != 0) {
    bool known = client.proof.fd >= 0 && text_equal(secret, client.secret);
    client.proof.close();
    client.authenticated = known;
    if (known) client.reply.text("");
    return known;
  }
  client.proof.close();
  uint64_t bits[2];
  FixedText<64> name;
  Text(client.secret, sizeof(client.secret));
  if (os::secret_bits(bits, sizeof(bits))) {
    Text text(client.secret, sizeof(client.secret));
    for (unsigned i = 0; i < 32; i++) text << "0123456789abcdef"[bits[i / 16] >> i % 16 * 4 & 15];
    name << "seemalloc:" << client.secret;
    int fd = os::make_memory_file(name.c_str());
    if (fd >= 0) client.proof.set(fd);
  }
  if (client.proof.fd < 0) {
    client.reply.error("permission denied: no descriptor to be had for a proof");
    return true;
  }
  FixedText<16> number;
  number << client.proof.fd;
  client.reply.text(number);
  return true;
}

// ---- the rounds of the helper thread ----

void Control::wait(StallWatch& stalls, WakeUp& wake_up, uint64_t timeout_ns) {
  constexpr unsigned kPolls = kClients + 3;
  os::Poll polls[kPolls];
  for (unsigned i = 0; i < kClients; i++) {
    polls[i] =
        os::Poll{clients_[i].descriptor.fd, false, false, false, clients_[i].reply.is_pending()};
  }
  bool accepting = os::monotonic_ns() >= accept_again_ns_;
  // Negative descriptors are skipped.
  polls[kClients] = os::Poll{accepting ? listener_.fd : -1, false};
  polls[kClients + 1] = stalls.wanted();
  polls[kClients + 2] = wake_up.wanted();
  bool any_open = false;
  for (const os::Poll& poll : polls) any_open |= poll.fd >= 0;
  uint64_t began_ns = os::monotonic_ns();
  bool has_waited = !any_open && timeout_ns != 0 && os::futex_wait(&interrupted_, 0, timeout_ns);
  if (!has_waited) os::poll_ready(polls, kPolls, timeout_ns);
  has_result_ = since(began_ns, os::monotonic_ns()) >= expected_wait_ns(timeout_ns);
  has_result_ |= interrupted_.exchange(0, std::memory_order_relaxed) != 0;
  stalls.note(polls[kClients + 1]);
  has_result_ |= wake_up.note(polls[kClients + 2]);
  for (unsigned i = 0; i < kClients; i++) clients_[i].ready = polls[i].ready;
  listener_ready_ = polls[kClients].ready;
}

void Control::interrupt() {
  os::CheckedDescriptor listener = listener_;
  if (listener.is_ours()) os::stop_listening(listener.fd);
  interrupted_.store(1, std::memory_order_relaxed);
  os::futex_wake(&interrupted_, 1);
}

void Control::serve() {
  uint64_t now_ns = os::monotonic_ns();
  for (Client& client : clients_) {
    if (client.descriptor.fd < 0) continue;
    client.has_moved = false;
    bool remains = serve_client(client, now_ns);
    if (!remains) disconnect(client);
    has_result_ |= client.has_moved || !remains;
  }
  if (listener_ready_ && listener_.is_ours()) {
    accept_client();
    has_result_ = true;  // a failure is followed by a pause
  }
  // A round that neither waited nor moved a byte: the kernel reports a descriptor as ready, or the
  // wait as interrupted, and may do so for ever.
  has_result_ ? brake_.reset() : brake_.slow_down();
}

}  // namespace seemalloc
