package attach

import (
	"strings"
	"testing"
)

func TestScriptOf(t *testing.T) {
	for line, want := range map[string]string{
		"python3 app.py --port 80":                      "app.py",
		"/srv/env/bin/python3.12 -u /srv/a.py":          "/srv/a.py",
		"python3 -m gunicorn app:app":                   "gunicorn",
		"python3":                                       "",
		"python3 -":                                     "",
		"python3 - app.py":                              "",
		"python3 -W ignore app.py -W error":             "app.py",
		"python3 -Wignore -Xdev app.py":                 "app.py",
		"python3 -uX dev app.py":                        "app.py",
		"python3 -Im gunicorn":                          "gunicorn",
		"python3 -mgunicorn":                            "gunicorn",
		"python3 -m":                                    "",
		"python3 -c pass app.py":                        "",
		"python3 --check-hash-based-pycs always app.py": "app.py",
		"bash app.py":                                   "",
		"":                                              "",
	} {
		if got := scriptOf(strings.Split(line, " ")); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
