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

bool is_object(uintptr_t address) { return address != 0 && address % sizeof(uintptr_t) == 0; }

using CodeAddresses = PythonNames::CodeAddresses;

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

// A code object with the objects that it refers to, all verified.
struct Code {
  uintptr_t address;
  CodeAddresses at;
  int32_t first_line;
  uint64_t units;
  bool hidden;  // no instruction is traceable
  TextCopy file, name;
  BytesHead lines_head;
};

bool read_with_heads(os::MemoryRead whole, const CodeAddresses& at, Code* code) {
  os::MemoryRead reads[] = {code->file.read(at.file),
                            code->name.read(at.name),
                            {at.lines, &code->lines_head, sizeof(code->lines_head)},
                            whole};
  return os::read_memory(reads, whole.bytes != 0 ? 4 : 3);
}

bool read_code(const Python& python, uintptr_t address, Code* code) {
  const PythonLayout& layout = *python.layout;
  char copy[kMaxCodeBytes];
  os::MemoryRead whole{address, copy, layout.code_first_traceable + sizeof(int32_t)};
  CodeAddresses guess = python.names->find_addresses(address);
  bool guessed = guess.file != 0 && read_with_heads(whole, guess, code);
  if (!guessed && !os::read_memory(&whole, 1)) return false;
  if (field<uintptr_t>(copy, kType) != python.code_type) return false;
  code->address = address;
  code->at = {field<uintptr_t>(copy, kCodeFile), field<uintptr_t>(copy, kCodeQualifiedName),
              field<uintptr_t>(copy, kCodeLines)};
  code->first_line = field<int32_t>(copy, layout.code_first_line);
  code->units = field<uint64_t>(copy, kSize);
  int32_t first_traceable = field<int32_t>(copy, layout.code_first_traceable);
  code->hidden = first_traceable > 0 && static_cast<uint64_t>(first_traceable) >= code->units;
  if (!guessed || guess != code->at) {
    if (!is_object(code->at.file) || !is_object(code->at.name) || !is_object(code->at.lines))
      return false;
    if (!read_with_heads({}, code->at, code)) return false;
    python.names->cache_addresses(address, code->at);
  }
  if (!code->file.head.is_valid(python) || !code->name.head.is_valid(python)) return false;
  return code->lines_head.type == python.bytes_type && code->lines_head.size >= 0 &&
         code->lines_head.size <= kMaxLineTableBytes;
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
      read_python_text(python, code.at.file, code.file.head, true, text->at, sizeof(Text));
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
      read_python_text(python, code.at.name, code.name.head, false, text->at, sizeof(Text));
  if (bytes == SIZE_MAX) return Interned::kUnreadable;
  *function = python.names->add_function(key, text->at, bytes, file, code.first_line);
  return *function != 0 ? Interned::kYes : Interned::kNoRoom;
}

// Sets *function to 0 if there is no room for it. Returns false if it cannot be read.
bool find_function(const Python& python, const Code& code, uint32_t* function) {
  uint64_t file_key = key_of(python, code.at.file, code.file),
           name_key = key_of(python, code.at.name, code.name);
  if (file_key == 0 || name_key == 0) return false;
  uint64_t key = mix(mix(name_key, file_key), static_cast<uint32_t>(code.first_line)) | 1;
  *function = python.names->find_function(key);
  if (SEEMALLOC_LIKELY(*function != 0)) return true;
  Interned interned = intern_function(python, code, key, file_key, function);
  if (interned == Interned::kNoRoom) *function = 0;
  return interned != Interned::kUnreadable;
}

// ---- lines ----

// Returns false if the table cannot be read.
SEEMALLOC_NOINLINE bool decode_line(const PythonCode& code, uint64_t unit, uint32_t* line) {
  PythonLineDecoder decoder(code.first_line, unit);
  for (size_t done = 0; done < code.lines_bytes;) {
    uint8_t part[256];
    size_t some = code.lines_bytes - done < sizeof(part) ? code.lines_bytes - done : sizeof(part);
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
  // The table of the same function, with the same size and address, has the same content, unless
  // the file was changed and loaded again.
  uint64_t place = mix(mix(code.lines, code.lines_bytes), uint64_t{code.function} << 32 ^ unit);
  if (python.names->find_line(place, line)) return true;
  if (!decode_line(code, unit, line)) return false;
  if (*line > PythonPc::kMaxLine) *line = 0;
  python.names->cache_line(place, *line);
  return true;
}

}  // namespace

PythonWalk::PythonWalk(const Python& python) : python_(python), layout_(*python.layout) {
  auto state = reinterpret_cast<uintptr_t>(python.thread_state());
  uintptr_t top;
  if (state == 0) return;
  if (os::read_memory(reinterpret_cast<const void*>(state + layout_.state_top), &top,
                      sizeof(top))) {
    next_interpreter(top);
  } else {
    unreadable_ = true;
  }
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
  if (!os::read_memory(reinterpret_cast<const void*>(top), cframe,
                       layout_.cframe_previous + sizeof(uintptr_t))) {
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
  if (frame < window_start_ || frame + kFrameBytes > window_end_) {
    // The copy starts at most at the page's start: callers are at lower addresses than the
    // functions they call.
    uintptr_t end = frame + kFrameBytes, page = round_down(frame, size_t{4096});
    uintptr_t start = end - page > kWindowBytes ? end - kWindowBytes : page;
    window_start_ = window_end_ = 0;
    if (!os::read_memory(reinterpret_cast<const void*>(start), window_, end - start)) return false;
    window_start_ = start;
    window_end_ = end;
  }
  const char* copy = window_ + (frame - window_start_);
  uint8_t mark = field<uint8_t>(copy, layout_.frame_mark);
  *out = {field<uintptr_t>(copy, layout_.frame_code),
          field<uintptr_t>(copy, layout_.frame_previous),
          field<uintptr_t>(copy, layout_.frame_instruction),
          layout_.mark_is_entry ? mark != 0 : mark == kOwnedByCStack};
  return true;
}

// Returns the properties of a code object, from earlier in this stack or by reading it. Returns
// null if it is not a code object.
const PythonCode* PythonWalk::find_code(uintptr_t address) {
  if (!is_object(address)) return nullptr;
  for (const PythonCode& known : known_) {
    if (known.address == address) return &known;
  }
  PythonCode& known = known_[next_known_++ % kKnown];
  known.address = 0;
  os::Scratch<Code> code;
  if (!code || !read_code(python_, address, &*code)) return nullptr;
  known.hidden = code->hidden;
  known.lines = code->at.lines;
  known.lines_bytes = static_cast<size_t>(code->lines_head.size);
  known.first_line = code->first_line;
  known.units = code->units;
  if (!code->hidden && !find_function(python_, *code, &known.function)) return nullptr;
  known.address = address;
  return &known;
}

PythonWalk::Found PythonWalk::find(const Frame& frame, uintptr_t* pc) {
  const PythonCode* code = find_code(frame.code);
  if (code == nullptr) return Found::kUnreadable;
  if (code->hidden) return Found::kNone;
  uint32_t line = 0;
  if (code->function == 0) {
    count_python_without_room();
  } else if (!find_line(python_, *code, frame.instruction, &line)) {
    return Found::kUnreadable;
  }
  *pc = encode_python_pc({code->function, line});
  return Found::kFunction;
}

// Appends all functions that the interpreter runs, or none.
bool PythonWalk::append(Stack* out, size_t max_depth) {
  uint32_t before = out->depth;
  uintptr_t at = frame_;
  for (unsigned n = 0; n < kMaxFrames && at != 0; n++) {
    Frame frame;
    uintptr_t pc;
    if (!read_frame(at, &frame)) break;
    if (frame.marked && !layout_.mark_is_entry) return out->depth != before;
    Found found = find(frame, &pc);
    if (found == Found::kUnreadable) break;
    if (found == Found::kFunction) {
      if (out->depth == max_depth) {
        out->truncated = true;
        return true;
      }
      out->pcs[out->depth++] = pc;
    }
    if (frame.marked) return out->depth != before;
    at = frame.previous;
  }
  unreadable_ = true;
  out->depth = before;
  return false;
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
