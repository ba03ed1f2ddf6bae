package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"seemalloc/tool/web"
)

// saved writes a heap profile; no time: 0.
func saved(t *testing.T, name string, seconds int64) string {
	t.Helper()
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "inuse_space", Unit: "bytes"}}, TimeNanos: seconds * 1e9}
	var data bytes.Buffer
	if err := p.Write(&data); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// All files are there, in the order of their times; where one has none, as given, and that is said.
func TestSavedProfilesOfThePage(t *testing.T) {
	const many = 200
	var files []string
	for i := range int64(many) {
		files = append(files, saved(t, fmt.Sprint(i), 1e9+(i*7919)%many))
	}
	for _, timeless := range []string{"", "timeless.pb.gz"} {
		var said bytes.Buffer
		a, history := &app{err: &said}, &web.History{}
		given := files
		if timeless != "" {
			given = append(given, saved(t, timeless, 0))
		}
		if _, err := a.webOfFiles(webFlags{}, given, history); err != nil {
			t.Fatal(err)
		}
		moments := history.Moments()
		if len(moments) != len(given) {
			t.Fatalf("%d of %d files", len(moments), len(given))
		}
		for i := range moments {
			if timeless == "" && i > 0 && moments[i].Time <= moments[i-1].Time {
				t.Errorf("file %d is not later than the one before", i)
			}
			if timeless != "" && moments[i].Name != filepath.Base(given[i]) {
				t.Errorf("file %d is %s instead of %s", i, moments[i].Name, given[i])
			}
		}
		if last := moments[len(moments)-1]; timeless != "" && last.Time != 0 {
			t.Errorf("it is of %d", last.Time)
		}
		if strings.Contains(said.String(), "does not say when it was taken") != (timeless != "") {
			t.Errorf("said %q", said.String())
		}
	}
}
