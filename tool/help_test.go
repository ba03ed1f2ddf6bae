package main

import (
	"strings"
	"testing"
)

// Every command has a help text with an example.
func TestHelp(t *testing.T) {
	root := tool(t, nil, "--help").expectSuccess(t)
	for _, name := range []string{"run", "ps", "top", "tree", "peek", "list", "diff", "profile", "dump", "baseline", "convert", "cpu", "stats", "get", "set", "purge", "activity", "trace", "growth", "doctor", "web", "report", "compare", "version", "help"} {
		help := tool(t, nil, name, "--help").expectSuccess(t)
		if !strings.Contains(help, "Examples:\n  seemalloc "+name) {
			t.Errorf("%s: no example in\n%s", name, help)
		}
		if !strings.Contains(root, "\n  "+name+" ") {
			t.Errorf("%s is not in the list of commands", name)
		}
	}
	if group, start := strings.Index(root, "Available Commands:"), strings.Index(root, "\n\nStart here:\n  run "); group >= 0 || start < 0 {
		t.Errorf("commands without a group, or none to start with, in\n%s", root)
	}
	if help := tool(t, nil, "stat", "--help").expectSuccess(t); !strings.Contains(help, "Usage:\n  seemalloc activity PID") {
		t.Errorf("stat is no alias of activity: %s", help)
	}
	if tool(t, nil).expectSuccess(t) != root {
		t.Error("without arguments it does not explain itself")
	}
}

// The note about missing symbols mentions --debug-dir, so each command that may print it has the flag.
func TestCommandsSymbolizeAddresses(t *testing.T) {
	for _, name := range []string{"top", "tree", "peek", "list", "diff", "profile", "convert", "cpu", "trace", "growth", "doctor", "web", "report"} {
		help := tool(t, nil, name, "--help").expectSuccess(t)
		for _, flag := range []string{"--debug-dir", "--perf-map"} {
			if !strings.Contains(help, flag) {
				t.Errorf("%s has no %s", name, flag)
			}
		}
	}
}

func TestHelpOptions(t *testing.T) {
	text := tool(t, nil, "help", "options").expectSuccess(t)
	for _, want := range []string{"\nsample  (bytes, 0 to 1T", "default 512K; set at any time)", "\nsocket_dir  (text", "SEEMALLOC_CONF"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	for _, line := range lines(text) {
		if len([]rune(line)) > 130 || strings.HasPrefix(line, "|") {
			t.Errorf("not fit for a terminal: %s", line)
		}
	}
}

func TestVersion(t *testing.T) {
	if got := tool(t, nil, "version").expectSuccess(t); !strings.HasPrefix(got, "seemalloc 0.1.0 (go") {
		t.Errorf("got %q", got)
	}
}
