// A reader of profile.proto for tests. It was written independently of the writer, so that an error
// must be in both to go unnoticed.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace seemalloc::profile {

struct Field {
  unsigned number;
  uint64_t value = 0;  // value of a varint
  std::string bytes;   // value of a delimited field
};

inline uint64_t read_varint(const std::string& text, size_t* at) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    unsigned char byte = static_cast<unsigned char>(text.at((*at)++));
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  ADD_FAILURE() << "a varint is too long";
  *at = text.size();
  return 0;
}

inline std::vector<Field> fields_of(const std::string& message) {
  std::vector<Field> fields;
  for (size_t at = 0; at < message.size();) {
    uint64_t tag = read_varint(message, &at);
    Field field{static_cast<unsigned>(tag >> 3), 0, {}};
    uint64_t value = read_varint(message, &at);
    if ((tag & 7) == 0) {
      field.value = value;
    } else {
      if ((tag & 7) != 2 || value > message.size() - at) {
        ADD_FAILURE() << "not a field: tag " << tag << ", length " << value;
        break;
      }
      field.bytes = message.substr(at, value);
      at += value;
    }
    fields.push_back(field);
  }
  return fields;
}

inline std::vector<uint64_t> numbers_of(const std::string& packed) {
  std::vector<uint64_t> numbers;
  for (size_t at = 0; at < packed.size();) numbers.push_back(read_varint(packed, &at));
  return numbers;
}

using Message = std::map<unsigned, Field>;  // for messages without repeated fields
inline Message message_of(const std::string& bytes) {
  Message message;
  for (Field& field : fields_of(bytes)) {
    EXPECT_TRUE(message.emplace(field.number, field).second)
        << "field " << field.number << " twice";
  }
  return message;
}

// The first field of each number, because a sample may have several labels.
inline Message first_of(const std::string& bytes) {
  Message message;
  for (Field& field : fields_of(bytes)) message.emplace(field.number, field);
  return message;
}

struct Profile {
  std::vector<std::string> strings, comments, types;
  std::vector<Message> mappings;
  std::map<uint64_t, Message> locations, functions;
  std::vector<Message> samples;
  std::map<unsigned, uint64_t> numbers;
  std::string period_type;

  const std::string& string(uint64_t index) const { return strings.at(index); }
};

inline Profile decode(const std::string& bytes) {
  Profile profile;
  std::vector<Field> fields = fields_of(bytes);
  for (Field& field : fields) {
    if (field.number == 6) profile.strings.push_back(field.bytes);
  }
  auto type = [&](const std::string& message) {
    Message value_type = message_of(message);
    return profile.string(value_type[1].value) + "/" + profile.string(value_type[2].value);
  };
  for (Field& field : fields) {
    switch (field.number) {
      case 1: profile.types.push_back(type(field.bytes)); break;
      case 2: profile.samples.push_back(first_of(field.bytes)); break;
      case 3: profile.mappings.push_back(message_of(field.bytes)); break;
      case 4: {
        Message location = message_of(field.bytes);
        EXPECT_TRUE(profile.locations.emplace(location[1].value, location).second);
        break;
      }
      case 5: {
        Message function = message_of(field.bytes);
        EXPECT_TRUE(profile.functions.emplace(function[1].value, function).second);
        break;
      }
      case 6: break;
      case 11: profile.period_type = type(field.bytes); break;
      case 13: profile.comments.push_back(profile.string(field.value)); break;
      default: EXPECT_TRUE(profile.numbers.emplace(field.number, field.value).second);
    }
  }
  return profile;
}

// Innermost first; 0 is a name without an address.
inline std::vector<uint64_t> addresses(const Profile& profile, const Message& sample) {
  std::vector<uint64_t> result;
  for (uint64_t id : numbers_of(sample.at(1).bytes)) {
    const Message& location = profile.locations.at(id);
    result.push_back(location.count(3) != 0 ? location.at(3).value : 0);
  }
  return result;
}

// A row with all of its labels; numbers as decimal text.
struct DecodedRow {
  std::vector<uint64_t> stack;
  std::vector<int64_t> values;
  std::map<std::string, std::string> labels;
};

inline std::vector<DecodedRow> rows_of(const std::string& bytes) {
  Profile profile = decode(bytes);
  std::vector<DecodedRow> rows;
  for (const Field& field : fields_of(bytes)) {
    if (field.number != 2) continue;
    DecodedRow row{addresses(profile, first_of(field.bytes)), {}, {}};
    for (const Field& part : fields_of(field.bytes)) {
      if (part.number == 2) {
        for (uint64_t value : numbers_of(part.bytes))
          row.values.push_back(static_cast<int64_t>(value));
      }
      if (part.number != 3) continue;
      Message label = message_of(part.bytes);
      row.labels[profile.string(label[1].value)] =
          label.count(2) != 0 ? profile.string(label[2].value)
                              : std::to_string(static_cast<int64_t>(label[3].value));
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace seemalloc::profile
