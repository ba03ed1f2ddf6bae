#include "core/api/service/socket_directory.h"

#include <atomic>

#include "core/api/service/json.h"
#include "core/base/options.h"
#include "core/os/kernel/ids.h"
#include "core/os/process/process.h"
#include "core/os/process/socket.h"

namespace seemalloc {

namespace {

constexpr unsigned kPlaces = 4;
constexpr int kNowhere = -1;

char runtime_directory[options::kMaxTextBytes];
std::atomic<int> used{kNowhere};
// For each directory: 0, -errno, or the result of os::make_private_directory().
std::atomic<int> refusals[kPlaces];

// False if there is no such candidate.
bool directory_at(unsigned place, Text& folder) {
  const char* chosen = options::get_text(options::Id::socket_dir);
  const char* bases[kPlaces] = {chosen, "/tmp", runtime_directory, "/dev/shm"};
  const char* base = bases[place];
  if (*base == 0) return false;
  folder << base;
  if (base != chosen) folder << "/seemalloc-" << os::effective_user();
  return true;
}

struct Opened {
  int fd;
  int problem;  // 0: none
};
Opened open_at(const char* folder, Text& path) {
  int problem = os::make_private_directory(folder);
  if (problem != 0) return {-1, problem};
  path.clear();
  path << folder << "/" << os::process_id() << ".sock";
  int fd = os::listen_unix(path.c_str());
  return {fd, fd < 0 ? fd : 0};
}

struct Why {
  int problem;
  const char* text;
};
constexpr Why kProblemTexts[] = {
    {os::kDirectoryOfAnotherUser, "it belongs to another user"},
    {os::kNoDirectory, "it is a file or a link"},
    {os::kDirectoryOpenToOthers, "it is open to other users"},
    {-98, "another process listens there"},
    {-30, "read-only file system"},
    {-28, "no space left"},
    {-13, "permission denied"},
    {-2, "no such folder"},
};

void append_problem(int problem, Text& out) {
  for (const Why& why : kProblemTexts) {
    if (why.problem == problem) out << why.text;
  }
  if (out.size() == 0) out << "errno " << -problem;
}

// The problem that the helper thread's name shows; 0: none.
int reported_problem = 0;

void show_problem_in_thread_name(int problem) {
  if (problem == reported_problem) return;
  reported_problem = problem;
  FixedText<16> name;
  name << "seemalloc";
  if (problem < 0) name << ":" << -problem;
  if (problem > 0)
    name << (problem == os::kDirectoryOfAnotherUser ? ":other"
             : problem == os::kNoDirectory          ? ":file"
                                                    : ":open");
  os::name_thread(name.c_str());
}

int first_refusal() {
  for (std::atomic<int>& refusal : refusals) {
    int problem = refusal.load(std::memory_order_relaxed);
    if (problem != 0) return problem;
  }
  return 0;
}

}  // namespace

void set_runtime_directory(const char* path) {
  if (path != nullptr && *path == '/') Text(runtime_directory, sizeof(runtime_directory)) << path;
}

int open_socket(Text& path) {
  for (std::atomic<int>& refusal : refusals) refusal.store(0, std::memory_order_relaxed);
  for (unsigned place = 0; place < kPlaces; place++) {
    FixedText<options::kMaxTextBytes> folder;
    if (!directory_at(place, folder)) continue;
    Opened opened = open_at(folder.c_str(), path);
    refusals[place].store(opened.problem, std::memory_order_relaxed);
    if (opened.fd < 0) continue;
    used.store(static_cast<int>(place), std::memory_order_relaxed);
    show_problem_in_thread_name(0);
    return opened.fd;
  }
  show_problem_in_thread_name(first_refusal());
  return -1;
}

void forget_socket() {
  used.store(kNowhere, std::memory_order_relaxed);
  reported_problem = 0;
}

void write_socket_json(Text& out) {
  JsonObject root(out);
  FixedText<options::kMaxTextBytes + 32> path;
  int place = used.load(std::memory_order_relaxed);
  if (place != kNowhere && directory_at(static_cast<unsigned>(place), path))
    path << "/" << os::process_id() << ".sock";
  append_escaped(root.key("path") << '"', path.c_str(), path.size()) << '"';
  JsonArray refused(root.key("refused"));
  for (unsigned i = 0; i < kPlaces; i++) {
    int problem = refusals[i].load(std::memory_order_relaxed);
    FixedText<options::kMaxTextBytes> folder;
    if (problem == 0 || !directory_at(i, folder)) continue;
    JsonObject object(refused.next());
    append_escaped(object.key("directory") << '"', folder.c_str(), folder.size()) << '"';
    FixedText<64> why;
    append_problem(problem, why);
    object.put("reason", why.c_str());
  }
}

}  // namespace seemalloc
