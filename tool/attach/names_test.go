package attach

import (
	"encoding/json"
	"strings"
	"testing"
)

const oldStats = `{"version":"0.1.0","sampling":{"stretched":5},"purge":{"given_back":6291456},"system":{"calls":[
{"call":"madvise:dontneed","reason":"asked","calls":3,"bytes":4096},{"call":"munmap","reason":"asked","calls":1,"bytes":8192}]},
"socket":{"path":"/tmp/\"why\":","refused":[{"folder":"/run/asked","why":"no space left"}]}}
`

// A process may have been started with the version before, whose answers have other names.
func TestAnswersOfTheVersionBefore(t *testing.T) {
	stats, err := ParseStats([]byte(oldStats), "test")
	if err != nil {
		t.Fatal(err)
	}
	if stats.Sampling.BackedOff != 5 || stats.Purge.PurgedBytes != 6291456 || stats.System.Calls.Purged() != 4096+8192 ||
		stats.System.Calls[0].Reason != "requested" {
		t.Errorf("%+v", stats)
	}
	if want := (RefusedDir{"/run/asked", "no space left"}); len(stats.Socket.Refused) != 1 || stats.Socket.Refused[0] != want ||
		stats.Socket.Path != `/tmp/"why":` {
		t.Errorf("%+v", stats.Socket)
	}
	// The JSON output has the present names.
	text, err := json.Marshal(stats)
	if err != nil || strings.Contains(string(text), `"folder"`) || strings.Contains(string(text), `"given_back"`) ||
		!strings.Contains(string(text), `"backed_off":5`) {
		t.Errorf("%v: %s", err, text)
	}
	var trace Trace
	var events []Event
	if _, err := trace.parse("1 mincore asked 4096 7 8 0 0 -\nlost 0 dropped 0 more 0\n", &events); err != nil ||
		len(events) != 1 || events[0].Reason != "requested" {
		t.Errorf("%v %+v", err, events)
	}
}
