// malloc's pop, as on any processor: here store_racing() is an atomic store. The build selects this
// file: core/arch/README.md.
#pragma once

#include "core/arch/generic/arch_pop.h"
