package attach

import (
	"bytes"
	"strings"
)

// renamed lists the names in answers to `stats` that differ in libraries of version 0.1: old, new. No other object of
// an answer has a member of an old name.
var renamed = [][2]string{
	{`"stretched":`, `"backed_off":`},
	{`"given_back":`, `"purged_bytes":`},
	{`"folder":`, `"directory":`},
	{`"why":`, `"reason":`},
	{`"reason":"` + oldReason + `"`, `"reason":"` + requestedReason + `"`},
}

// The reason of calls that were requested, as a library of version 0.1 names it, and its present name.
const (
	oldReason       = "asked"
	requestedReason = "requested"
)

var currentNames = func() *strings.Replacer {
	var words []string
	for _, names := range renamed {
		words = append(words, names[0], names[1])
	}
	return strings.NewReplacer(words...)
}()

// CurrentNames returns an answer to `stats` of this or the previous version of the library, with the present names.
// A quote inside a JSON string is escaped, so that the text of a string is never changed.
func CurrentNames(answer []byte) []byte {
	return []byte(currentNames.Replace(string(bytes.TrimSpace(answer))))
}

// currentReason returns the present name of a call's reason.
func currentReason(reason string) string {
	if reason == oldReason {
		return requestedReason
	}
	return reason
}
