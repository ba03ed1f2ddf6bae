"""GCC: the compiler proper, cc1plus -O2, on a generated file full of templates and of the standard library's headers.

GCC has a garbage-collected heap of its own on whole pages; its vectors, hash tables, bitmaps and much of the optimiser
use malloc.
"""
import subprocess

from .process import Failed
from .row import Row

PARTS = 3
HEAD = """
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <future>
#include <iomanip>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <ranges>
#include <regex>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

template <int N> struct Deep {
  using type = std::pair<typename Deep<N - 1>::type*, int>;
  static int f(int x) { return Deep<N - 1>::f(x * N) ^ N; }
};
template <> struct Deep<0> {
  using type = int;
  static int f(int x) { return x; }
};
"""
PART = """
namespace part_@ {
struct Item { int id; std::string name; std::vector<double> values; std::optional<std::string> note; };
using Shape = std::variant<int, double, std::string, std::array<char, @ + 8>, std::shared_ptr<Item>>;
using Index = std::map<std::string, std::unordered_map<int, std::vector<Shape>>>;
struct Visitor {
  std::string operator()(int x) const { return std::to_string(x + @); }
  std::string operator()(double x) const { std::ostringstream s; s << std::setprecision(@ % 9 + 1) << x; return s.str(); }
  std::string operator()(const std::string& x) const { return x + "@"; }
  template <size_t N> std::string operator()(const std::array<char, N>& x) const { return std::string(x.begin(), x.end()); }
  std::string operator()(const std::shared_ptr<Item>& x) const { return x ? x->name : "none"; }
};
template <typename... T> auto summed(const std::tuple<T...>& all) {
  return std::apply([](const auto&... one) { return (0.0 + ... + static_cast<double>(one)); }, all);
}
std::string describe(const Index& index) {
  std::string all;
  for (const auto& [key, rows] : index)
    for (const auto& [number, shapes] : rows)
      for (const Shape& shape : shapes) all += key + std::to_string(number) + std::visit(Visitor{}, shape);
  return all;
}
std::vector<Item> chosen(std::vector<Item> items) {
  std::ranges::sort(items, [](const Item& a, const Item& b) { return std::tie(a.name, a.id) < std::tie(b.name, b.id); });
  auto some = items | std::views::filter([](const Item& one) { return one.id % (@ + 2) == 0; }) |
              std::views::transform([](const Item& one) { Item copy = one; copy.values.push_back(@); return copy; });
  return {some.begin(), some.end()};
}
int searched(const std::string& text) {
  static const std::regex words("([a-z]+)-([0-9]{@,})");
  std::set<std::string> found;
  for (std::sregex_iterator i(text.begin(), text.end(), words), end; i != end; ++i) found.insert((*i)[1]);
  return static_cast<int>(found.size()) + Deep<40 + @>::f(3);
}
double together(std::deque<std::function<double(double)>> steps, double x) {
  auto later = std::async(std::launch::async, [=] {
    return std::accumulate(steps.begin(), steps.end(), x, [](double y, const auto& step) { return step(y); });
  });
  return later.get() + summed(std::tuple(1, 2.0f, 'c', @L, short(3))) + sizeof(typename Deep<30 + @>::type);
}
}  // namespace part_@
"""


def compiler():
    """cc1plus, and the options about the platform that g++ would pass to it."""
    def asked(question):
        return subprocess.run(["g++", question], capture_output=True, text=True).stdout.strip()
    program, multiarch = asked("-print-prog-name=cc1plus"), asked("-print-multiarch")
    return [program, "-quiet", "-D_GNU_SOURCE", *(["-imultiarch", multiarch] if multiarch else [])]


def once(run):
    source, target = run.folder / "templates.cc", run.folder / "templates.s"
    source.write_text(HEAD + "".join(PART.replace("@", str(part)) for part in range(PARTS)))
    figures, _ = run.measure([*compiler(), "-std=c++20", "-O2", source, "-o", target])
    if target.stat().st_size < 100_000:
        raise Failed("cc1plus wrote next to nothing")
    return {**figures, "metrics": {}}


ROWS = [Row("GCC, C++ with templates", 1, (("g++", "g++"),), once)]
