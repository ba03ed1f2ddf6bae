// Unwinding tables of any contents: the parser reads only the module's memory (AddressSanitizer),
// always ends, and finds the same row whether it reads in place or through copies. Expressions of
// the row are evaluated as well.
//
// Input: .eh_frame_hdr and .eh_frame in one piece; the last bytes choose the pc.
#include <string.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/profile/code/eh_frame.h"
#include "core/profile/unwind/expression.h"
#include "core/profile/unwind/unwind_rule.h"
#include "tests/fuzz/fuzz.h"

namespace seemalloc::profile {
namespace {

// Returns whether it has a value, and the same one both ways.
void evaluate(int64_t block, const Registers& registers, const uintptr_t* pushed) {
  auto at = static_cast<uintptr_t>(block);
  uintptr_t value[2] = {};
  bool ok[2];
  for (int trusted = 0; trusted < 2; trusted++) {
    StackMemory memory(reinterpret_cast<uintptr_t>(__builtin_frame_address(0)));
    memory.distrust();
    ok[trusted] = evaluate_expression(at, trusted != 0, registers, memory, pushed, &value[trusted]);
  }
  CHECK(ok[0] == ok[1] && (!ok[0] || value[0] == value[1]));
}

void evaluate_row(const Row& row, uint64_t number) {
  Registers registers{};
  registers.known = number | 1;
  // Small numbers, and the address of memory that does not change during the run.
  static const uintptr_t memory[64] = {1, 2, 3};
  for (unsigned i = 0; i < kRegisterCount; i++)
    registers.value[i] = i % 3 == 0 ? reinterpret_cast<uintptr_t>(memory) : number >> i;
  if (row.cfa_is_expression) evaluate(row.cfa_value, registers, nullptr);
  uintptr_t cfa = reinterpret_cast<uintptr_t>(memory);
  for (unsigned i = 0; i < kRegisterCount; i++) {
    if (row.rules[i] == RegisterRule::kAtExpression || row.rules[i] == RegisterRule::kIsExpression)
      evaluate(row.value[i], registers, &cfa);
  }
}

struct TableEntry {
  int32_t function, description;
};
constexpr size_t kTableStart = 12;

// Linkers sort the table. In an unsorted one a search may find anything. Returns false where the
// table begins elsewhere.
bool sort_table(char* tables, size_t bytes) {
  unsigned width = bytes < kTableStart ? 0 : tables[1] & 0x0F;
  uint32_t count;
  if (width != 0x03 && width != 0x0B) return false;
  memcpy(&count, tables + kTableStart - 4, sizeof(count));
  if (count > (bytes - kTableStart) / sizeof(TableEntry)) return false;
  std::vector<TableEntry> entries(count);
  if (count != 0) memcpy(entries.data(), tables + kTableStart, count * sizeof(TableEntry));
  std::stable_sort(entries.begin(), entries.end(), [](const TableEntry& a, const TableEntry& b) {
    return a.function < b.function;
  });
  if (count != 0) memcpy(tables + kTableStart, entries.data(), count * sizeof(TableEntry));
  return true;
}

void require_same(const Row& a, const Row& b) {
  CHECK(memcmp(a.rules, b.rules, sizeof(a.rules)) == 0 &&
        memcmp(a.value, b.value, sizeof(a.value)) == 0);
  CHECK(a.cfa_is_expression == b.cfa_is_expression && a.cfa_value == b.cfa_value &&
        a.cfa_register == b.cfa_register);
  CHECK(a.signal_frame == b.signal_frame && a.return_register == b.return_register);
}

}  // namespace
}  // namespace seemalloc::profile

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace seemalloc::profile;
  FuzzedDataProvider input(data, size);
  auto pc = input.ConsumeIntegral<uint16_t>();
  auto number = input.ConsumeIntegral<uint64_t>();
  std::string bytes = input.ConsumeRemainingBytesAsString();
  // Exactly as long: reads beyond are found.
  std::unique_ptr<char[]> tables(new char[bytes.size()]);
  memcpy(tables.get(), bytes.data(), bytes.size());
  bool sorted = sort_table(tables.get(), bytes.size());

  Module module;
  module.start = module.tables_start = module.eh_frame_header =
      reinterpret_cast<uintptr_t>(tables.get());
  module.tables_end = module.start + bytes.size();
  module.end = module.tables_end + 65536;  // code, which is not read
  Row row[2] = {};
  bool found[2];
  for (int trusted = 0; trusted < 2; trusted++)
    found[trusted] = find_row(module, module.start + pc, trusted != 0, &row[trusted]);
  if (sorted) CHECK(found[0] == found[1]);
  if (sorted && found[0]) require_same(row[0], row[1]);
  for (int i = 0; i < 2; i++) {
    if (found[i]) pack(row[i], 0);
    if (found[i]) evaluate_row(row[i], number);
  }
  return 0;
}
