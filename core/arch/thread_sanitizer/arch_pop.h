// malloc's pop, as on any processor: here racy_store() is an atomic store. The build selects this
// file: core/arch/README.md.
#pragma once

#include "core/arch/generic/arch_pop.h"
