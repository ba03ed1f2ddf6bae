package attach

import (
	"strings"
	"testing"
)

func TestScriptOf(t *testing.T) {
	for line, want := range map[string]string{
		"python3 app.py --port 80":             "app.py",
		"/srv/env/bin/python3.12 -u /srv/a.py": "/srv/a.py",
		"python3 -m gunicorn app:app":          "gunicorn",
		"python3":                              "",
		"python3 -":                            "",
		"bash app.py":                          "",
		"":                                     "",
	} {
		if got := scriptOf(strings.Split(line, " ")); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
