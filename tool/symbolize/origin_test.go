package symbolize

import "testing"

func TestPackageOf(t *testing.T) {
	const path = "/lib/x86_64-linux-gnu/libc.so.6"
	for answer, want := range map[string]string{
		"libc6:amd64: " + path + "\n":                                              "libc6",
		"redis-tools: " + path + "\n":                                              "redis-tools",
		"libc6:amd64, libc6:i386: " + path + "\n":                                  "libc6",
		"diversion by dash from: " + path + "\nlibc6:amd64: " + path + "\n":        "libc6",
		"libfoo: /lib/x86_64-linux-gnu/libc.so.6.old\nlibc6:amd64: " + path + "\n": "libc6",
		"libfoo: /lib/x86_64-linux-gnu/libc.so.6.old\n":                            "",
		"": "",
	} {
		if got := packageOf(answer, path); got != want {
			t.Errorf("%q: %q, want %q", answer, got, want)
		}
	}
}
