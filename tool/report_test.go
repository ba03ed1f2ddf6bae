package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReportIsWritten(t *testing.T) {
	shop := buildShop(t)
	pid := serveSelf(t, shop.profileBytes(t))
	path := filepath.Join(t.TempDir(), "report.html")
	if out := tool(t, nil, "report", pid, "--for", "1s", "-o", path).expectSuccess(t); out != path+"\n" {
		t.Errorf("it says %q", out)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<!doctype html>`, `"shop::till"`, `"dump_prefix"`, `"rss":104857600`} {
		if !strings.Contains(string(page), want) {
			t.Errorf("%s is not in it", want)
		}
	}
	saved := filepath.Join(t.TempDir(), "before.pb.gz")
	if err := os.WriteFile(saved, shop.profileBytes(t), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := tool(t, nil, "report", saved, "-o", "-").expectSuccess(t); !strings.Contains(out, `"shop::till"`) {
		t.Errorf("of a file: %d bytes", len(out))
	}
}

func TestReportRefuses(t *testing.T) {
	for _, test := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"report"}, 2, "which process or file?"},
		{[]string{"report", "no-such.pb.gz"}, 1, "no-such.pb.gz: no such file"},
		{[]string{"report", "1", "--for", "0s"}, 2, "--for 0s: expected 1s or more"},
	} {
		tool(t, nil, test.args...).expectFailure(t, test.status, test.want)
	}
}
