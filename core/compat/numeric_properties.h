// gperftools' numeric properties: "generic.heap_size" and so on.
//
// Threads: any.
#pragma once

#include <cstddef>

namespace seemalloc::compat {

// Returns false if there is no such property.
bool get_property(const char* name, size_t* value);
// Returns false if there is no such property, or it cannot be set.
bool set_property(const char* name, size_t value);

// For tests and documentation.
size_t property_count();
const char* property_name(size_t index);

}  // namespace seemalloc::compat
