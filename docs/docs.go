// Package docs carries the documents that the tool shows.
package docs

import _ "embed"

// Options is options.md, which tool/gen/options makes from core/base/options_table.h.
//
//go:embed options.md
var Options string
