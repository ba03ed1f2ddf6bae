package symbolize

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/pprof/profile"
)

func TestExecutableHasTheNameOfItsLink(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err == nil {
		sleep, err = filepath.EvalSymlinks(sleep)
	}
	if err != nil {
		t.Skip("no sleep")
	}
	data, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program, link := filepath.Join(dir, "program"), filepath.Join(dir, "link")
	if err := os.WriteFile(program, data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("program", link); err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct {
		arguments []string // the first one is the name
		path      string
		want      string
	}{
		{[]string{link, "60"}, link, link},
		{[]string{"link: serving", "60"}, link, link}, // by the kernel's short name
		{[]string{program, "60"}, program, program},
		{[]string{"/bin/sh", "60"}, program, program},
	} {
		c := exec.Command(of.path)
		c.Args = of.arguments
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		p := &profile.Profile{Mapping: []*profile.Mapping{{File: program}, {File: "/lib/libc.so.6"}}}
		nameExecutable(p, c.Process.Pid)
		if p.Mapping[0].File != of.want || p.Mapping[1].File != "/lib/libc.so.6" {
			t.Errorf("%v: %s, want %s", of.arguments, p.Mapping[0].File, of.want)
		}
		_ = c.Process.Kill()
		_ = c.Wait()
	}
}
