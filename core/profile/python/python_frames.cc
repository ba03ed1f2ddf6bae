#include "core/profile/python/python_frames.h"

#include <cstring>

#include "core/base/compiler.h"
#include "core/base/units.h"
#include "core/os/kernel/read_memory.h"
#include "core/os/runtime/scratch.h"
#include "core/profile/python/python_lines.h"
#include "core/profile/python/python_pc.h"
#include "core/profile/python/python_text.h"
#include "core/profile/sampling/intern_table.h"

namespace seemalloc::profile {

namespace {

// Offsets that are the same in all known versions: object heads, and parts of PyCodeObject.
constexpr size_t kType = 8, kSize = 16;
constexpr size_t kCodeFile = 112, kCodeQualifiedName = 128, kCodeLines = 136;
constexpr size_t kBytesData = 32;
constexpr size_t kUnitBytes = 2;
constexpr uint8_t kOwnedByCStack = 3;
constexpr size_t kFrameBytes = 72;     // the part that is read
constexpr size_t kMaxCodeBytes = 200;  // the same, in any version
constexpr int64_t kMaxLineTableBytes = 8 << 20;
// The maximum number of frames of one interpreter, and of interpreters of a thread, that are
// followed.
constexpr unsigned kMaxFrames = 4096;

struct BytesHead {
  uint64_t references;
  uint64_t type;
  int64_t size;
};

template <typename T>
T field(const char* object, size_t offset) {
  T value;
  memcpy(&value, object + offset, sizeof(value));
  return value;
}

// AddressSanitizer forbids reads of other functions' frames.
SEEMALLOC_NO_TSAN __attribute__((no_sanitize("address"))) uintptr_t load(uintptr_t address) {
  uintptr_t value;
  __builtin_memcpy(&value, reinterpret_cast<const void*>(address), sizeof(value));
  return value;
}

// The end of the innermost frame that had to be read; 0: none. It is only a guess.
constinit thread_local uintptr_t last_frame_end __attribute__((tls_model("initial-exec"))) = 0;

bool is_object(uintptr_t address) { return address != 0 && address % sizeof(uintptr_t) == 0; }

// A copy of the head of a str and of the bytes after it in its page. Most texts fit in it
// completely.
struct TextCopy {
  static constexpr size_t kMaxBytes = 128;

  union {
    PythonTextHeader head;
    char bytes[kMaxBytes];
  };
  size_t size;

  os::MemoryRead read(uintptr_t from) {
    size_t in_page = kPageBytes - from % kPageBytes;
    size = in_page > kMaxBytes ? kMaxBytes : in_page < sizeof(head) ? sizeof(head) : in_page;
    return {from, bytes, size};
  }
  // Returns null if the text is longer than the copy.
  const char* text(const Python& python, size_t* length) const {
    size_t start = head.is_ascii() ? python.layout->ascii_bytes : python.layout->compact_bytes;
    *length = static_cast<size_t>(head.length) * head.character_bytes();
    return start + *length <= size ? bytes + start : nullptr;
  }

 private:
  static constexpr size_t kPageBytes = 4096;  // or a multiple
};

// A code object with the texts that it refers to, all verified.
struct Code {
  PythonCode facts;  // without the function
  uintptr_t file_address, name_address;
  TextCopy file, name;
  // Of code that is being freed, the count is 0. Of memory that was freed, it is 0 or a pointer.
  uint64_t references;
  bool is_alive() const { return references != 0 && references <= UINT32_MAX; }
};

bool read_code(const Python& python, uintptr_t address, os::MemoryReader& reader, Code* code) {
  const PythonLayout& layout = *python.layout;
  char copy[kMaxCodeBytes];
  if (!reader.read(address, copy, layout.code_first_traceable + sizeof(int32_t)) ||
      field<uintptr_t>(copy, kType) != python.code_type)
    return false;
  PythonCode& facts = code->facts;
  facts.address = address;
  facts.lines = field<uintptr_t>(copy, kCodeLines);
  facts.first_line = field<int32_t>(copy, layout.code_first_line);
  facts.units = field<uint64_t>(copy, kSize);
  int32_t first_traceable = field<int32_t>(copy, layout.code_first_traceable);
  facts.hidden = first_traceable > 0 && static_cast<uint64_t>(first_traceable) >= facts.units;
  facts.function = 0;
  code->references = field<uint64_t>(copy, 0);
  code->file_address = field<uintptr_t>(copy, kCodeFile);
  code->name_address = field<uintptr_t>(copy, kCodeQualifiedName);
  if (!is_object(code->file_address) || !is_object(code->name_address) || !is_object(facts.lines))
    return false;
  os::MemoryRead texts[] = {code->file.read(code->file_address),
                            code->name.read(code->name_address)};
  return reader.read(texts, 2) && code->file.head.is_valid(python) &&
         code->name.head.is_valid(python);
}

// ---- names ----

uint64_t hash_of(const char* text, size_t bytes) {
  uint64_t hash = bytes;
  for (; bytes >= sizeof(uint64_t); text += sizeof(uint64_t), bytes -= sizeof(uint64_t))
    hash = mix(hash, field<uint64_t>(text, 0));
  uint64_t rest = 0;
  memcpy(&rest, text, bytes);
  return mix(hash, rest);
}

struct Text {
  char at[PythonNames::kMaxBytes];
};

SEEMALLOC_NOINLINE uint64_t key_by_reading(const Python& python, uintptr_t address,
                                           const PythonTextHeader& head) {
  os::Scratch<Text> text;
  if (!text) return 0;
  size_t bytes = read_python_text(python, address, head, true, text->at, sizeof(Text));
  return bytes != SIZE_MAX ? hash_of(text->at, bytes) | 1 : 0;
}
// Returns a key computed from the content of a text, because its address may belong to another text
// later. A text longer than the copy is identified by Python's own hash if there is one; most names
// of functions have none. Returns 0 if the text cannot be read.
uint64_t key_of(const Python& python, uintptr_t address, const TextCopy& copy) {
  size_t length;
  const char* text = copy.text(python, &length);
  if (SEEMALLOC_LIKELY(text != nullptr))
    return mix(hash_of(text, length), copy.head.character_bytes()) | 1;
  if (copy.head.hash == -1) return key_by_reading(python, address, copy.head);
  return mix(static_cast<uint64_t>(copy.head.hash), length) | 1;
}

enum class Interned { kYes, kNoRoom, kUnreadable };

SEEMALLOC_NOINLINE Interned intern_file(const Python& python, const Code& code, uint64_t key,
                                        uint32_t* file) {
  *file = python.names->find_file(key);
  if (*file != 0) return Interned::kYes;
  os::Scratch<Text> text;
  if (!text) return Interned::kUnreadable;
  size_t bytes =
      read_python_text(python, code.file_address, code.file.head, true, text->at, sizeof(Text));
  if (bytes == SIZE_MAX) return Interned::kUnreadable;
  *file = python.names->add_file(key, text->at, bytes);
  return *file != 0 ? Interned::kYes : Interned::kNoRoom;
}

SEEMALLOC_NOINLINE Interned intern_function(const Python& python, const Code& code, uint64_t key,
                                            uint64_t file_key, uint32_t* function) {
  uint32_t file;
  Interned interned = intern_file(python, code, file_key, &file);
  if (interned != Interned::kYes) return interned;
  os::Scratch<Text> text;
  if (!text) return Interned::kUnreadable;
  size_t bytes =
      read_python_text(python, code.name_address, code.name.head, false, text->at, sizeof(Text));
  if (bytes == SIZE_MAX) return Interned::kUnreadable;
  *function = python.names->add_function(key, text->at, bytes, file, code.facts.first_line);
  return *function != 0 ? Interned::kYes : Interned::kNoRoom;
}

// Sets *function to 0 if there is no room for it. Returns false if it cannot be read.
bool find_function(const Python& python, const Code& code, uint32_t* function) {
  uint64_t file_key = key_of(python, code.file_address, code.file),
           name_key = key_of(python, code.name_address, code.name);
  if (file_key == 0 || name_key == 0) return false;
  uint64_t key = mix(mix(name_key, file_key), static_cast<uint32_t>(code.facts.first_line)) | 1;
  *function = python.names->find_function(key);
  if (*function != 0) return true;
  Interned interned = intern_function(python, code, key, file_key, function);
  if (interned == Interned::kNoRoom) *function = 0;
  return interned != Interned::kUnreadable;
}

// ---- lines ----

// Returns false if the table cannot be read.
SEEMALLOC_NOINLINE bool decode_line(const Python& python, const PythonCode& code, uint64_t unit,
                                    uint32_t* line) {
  BytesHead head;
  if (!os::read_memory(reinterpret_cast<const void*>(code.lines), &head, sizeof(head)) ||
      head.type != python.bytes_type || head.size < 0 || head.size > kMaxLineTableBytes)
    return false;
  auto bytes = static_cast<size_t>(head.size);
  PythonLineDecoder decoder(code.first_line, unit);
  for (size_t done = 0; done < bytes;) {
    uint8_t part[256];
    size_t some = bytes - done < sizeof(part) ? bytes - done : sizeof(part);
    if (!os::read_memory(reinterpret_cast<const void*>(code.lines + kBytesData + done), part, some))
      return false;
    for (size_t i = 0; i < some; i++) {
      if (decoder.feed(part[i])) {
        *line = decoder.line();
        return true;
      }
    }
    done += some;
  }
  *line = decoder.line();
  return true;
}

bool find_line(const Python& python, const PythonCode& code, uintptr_t instruction,
               uint32_t* line) {
  uint64_t unit = (instruction - (code.address + python.layout->code_bytes)) / kUnitBytes;
  // Before the first instruction, or between two frames: only the function is known.
  if (unit >= code.units) {
    *line = code.first_line > 0 ? static_cast<uint32_t>(code.first_line) : 0;
    return true;
  }
  // A function of the same size whose table is at the same address has the same lines, unless the
  // file was changed and loaded again.
  uint64_t place = mix(mix(code.lines, code.units), uint64_t{code.function} << 32 ^ unit);
  if (python.names->find_line(place, line)) return true;
  if (!decode_line(python, code, unit, line)) return false;
  if (*line > PythonPc::kMaxLine) *line = 0;
  python.names->cache_line(place, *line);
  return true;
}

}  // namespace

PythonWalk::PythonWalk(const Python& python, uintptr_t stack_low, uintptr_t stack_high)
    : python_(python), layout_(*python.layout), stack_low_(stack_low), stack_high_(stack_high) {
  auto state = reinterpret_cast<uintptr_t>(python.thread_state());
  uintptr_t top;
  if (state == 0) return;
  if (read_top(state, &top)) {
    next_interpreter(top);
  } else {
    unreadable_ = true;
  }
}

// Reads the state's word, and with the same system call the page where this thread's innermost
// frame was at its previous stack.
bool PythonWalk::read_top(uintptr_t state, uintptr_t* top) {
  // A function that this one calls may be innermost now.
  constexpr size_t kMoreBytes = 512;
  uintptr_t page = round_down(last_frame_end - 1, size_t{4096}), end = last_frame_end + kMoreBytes;
  if (end > page + 4096) end = page + 4096;
  uintptr_t start = end - page > kWindowBytes ? end - kWindowBytes : page;
  os::MemoryRead reads[] = {{state + layout_.state_top, top, sizeof(*top)},
                            {start, window_, end - start}};
  if (last_frame_end != 0 && reader_.read(reads, 2)) {
    window_start_ = start;
    window_end_ = end;
    return true;
  }
  last_frame_end = 0;
  return reader_.read(state + layout_.state_top, top, sizeof(*top));
}

// Copies an object of aligned words. The thread's own stack is read in place.
bool PythonWalk::read(uintptr_t from, void* to, size_t bytes) {
  if (!is_on_stack(from, bytes)) return reader_.read(from, to, bytes);
  for (size_t i = 0; i < bytes; i += sizeof(uintptr_t)) {
    uintptr_t word = load(from + i);
    memcpy(static_cast<char*>(to) + i, &word, sizeof(word));
  }
  return true;
}

// `top` is the innermost interpreter's _PyCFrame or, in versions without these, its innermost
// frame. The last _PyCFrame belongs to the thread state.
void PythonWalk::next_interpreter(uintptr_t top) {
  anchor_ = frame_ = next_ = 0;
  if (!is_object(top)) return;
  if (!layout_.has_cframes) {
    frame_ = top;
    return find_anchor();
  }
  char cframe[24];
  if (top > UINTPTR_MAX - sizeof(cframe) ||
      !read(top, cframe, layout_.cframe_previous + sizeof(uintptr_t))) {
    unreadable_ = true;
    return;
  }
  next_ = field<uintptr_t>(cframe, layout_.cframe_previous);
  if (next_ == 0) return;
  frame_ = field<uintptr_t>(cframe, layout_.cframe_current);
  anchor_ = top;
}

// In versions without _PyCFrames, the frame after the last one is on the C stack.
void PythonWalk::find_anchor() {
  uintptr_t at = frame_;
  for (unsigned n = 0; n < kMaxFrames && at != 0; n++) {
    Frame frame;
    if (!read_frame(at, &frame)) break;
    if (frame.marked) {
      anchor_ = at;
      next_ = frame.previous;
      return;
    }
    at = frame.previous;
  }
  unreadable_ = true;
}

bool PythonWalk::read_frame(uintptr_t frame, Frame* out) {
  // Its end would overflow.
  if (!is_object(frame) || frame > UINTPTR_MAX - kFrameBytes) return false;
  if (is_on_stack(frame, kFrameBytes)) {
    char copy[kFrameBytes];
    read(frame, copy, kFrameBytes);
    *out = decode(copy);
    return true;
  }
  if (frame < window_start_ || frame + kFrameBytes > window_end_) {
    // The copy starts at most at the page's start: callers are at lower addresses than the
    // functions they call.
    uintptr_t end = frame + kFrameBytes, page = round_down(frame, size_t{4096});
    uintptr_t start = end - page > kWindowBytes ? end - kWindowBytes : page;
    window_start_ = window_end_ = 0;
    if (!reader_.read(start, window_, end - start)) return false;
    if (is_first_) last_frame_end = end;
    window_start_ = start;
    window_end_ = end;
  }
  is_first_ = false;
  *out = decode(window_ + (frame - window_start_));
  return true;
}

PythonWalk::Frame PythonWalk::decode(const char* frame) const {
  uint8_t mark = field<uint8_t>(frame, layout_.frame_mark);
  return {field<uintptr_t>(frame, layout_.frame_code),
          field<uintptr_t>(frame, layout_.frame_previous),
          field<uintptr_t>(frame, layout_.frame_instruction),
          layout_.mark_is_entry ? mark != 0 : mark == kOwnedByCStack};
}

// Finds the properties of a code object, in the cache or by reading it. Returns false if it is not
// a code object.
bool PythonWalk::find_code(uintptr_t address, PythonCode* code) {
  if (!is_object(address)) return false;
  if (SEEMALLOC_LIKELY(python_.frees_are_seen && python_.names->codes.find(address, code)))
    return true;
  uint64_t frees = python_.names->codes.frees(address);
  os::Scratch<Code> read;
  if (!read || !read_code(python_, address, reader_, &*read)) return false;
  *code = read->facts;
  if (!code->hidden && !find_function(python_, *read, &code->function)) return false;
  if (python_.frees_are_seen && read->is_alive()) python_.names->codes.insert(*code, frees);
  return true;
}

PythonWalk::Found PythonWalk::find(const Frame& frame, uintptr_t* pc) {
  PythonCode code;
  if (!find_code(frame.code, &code)) return Found::kUnreadable;
  if (code.hidden) return Found::kNone;
  uint32_t line = 0;
  if (code.function == 0) {
    count_python_without_room();
  } else if (!find_line(python_, code, frame.instruction, &line)) {
    return Found::kUnreadable;
  }
  *pc = encode_python_pc({code.function, line});
  return Found::kFunction;
}

// Appends all functions that the interpreter runs, or none.
bool PythonWalk::append(Stack* out, size_t max_depth) {
  uint32_t added = 0;
  uintptr_t at = frame_;
  for (unsigned n = 0; n < kMaxFrames && at != 0; n++) {
    Frame frame;
    uintptr_t pc;
    if (!read_frame(at, &frame)) break;
    if (frame.marked && !layout_.mark_is_entry) return added != 0;
    Found found = find(frame, &pc);
    if (found == Found::kUnreadable) break;
    if (found == Found::kFunction) {
      if (out->depth == max_depth && !make_room(out, max_depth)) {
        out->truncated = true;
        return true;
      }
      out->pcs[out->depth++] = pc;
      added++;
    }
    if (frame.marked) return added != 0;
    at = frame.previous;
  }
  unreadable_ = true;
  out->depth -= added;
  return false;
}

bool PythonWalk::make_room(Stack* out, size_t max_depth) {
  if (makes_room_) return false;
  makes_room_ = true;
  uint32_t kept = 0;
  bool is_inner = true;  // no Python function so far
  for (uint32_t i = 0; i < out->depth; i++) {
    uintptr_t pc = out->pcs[i];
    is_inner = is_inner && !is_python_pc(pc);
    if (is_inner || !is_interpreter_code(pc)) out->pcs[kept++] = pc;
  }
  out->depth = kept;
  return kept < max_depth;
}

void PythonWalk::replace_last(Stack* out, size_t max_depth) {
  uintptr_t native = out->pcs[--out->depth];
  if (!append(out, max_depth)) out->pcs[out->depth++] = native;
  next_interpreter(next_);
}

void PythonWalk::append_rest(Stack* out, size_t max_depth) {
  for (unsigned n = 0; n < kMaxFrames && has_interpreter() && !out->truncated; n++) {
    append(out, max_depth);
    next_interpreter(next_);
  }
}

}  // namespace seemalloc::profile
