package compare

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// Loads explains why the library cannot be preloaded, or returns nil if it can. The loader only prints a warning in
// that case. The test program is cat, which prints its own memory map. If cat is not suitable, it returns nil.
func Loads(ctx context.Context, library string, env []string) error {
	cat, err := exec.LookPath("cat")
	if err != nil || library == "" {
		return nil
	}
	maps := func(library string) (string, string, error) {
		command := exec.CommandContext(ctx, cat, "/proc/self/maps")
		command.Env = Environment(env, library)
		var out, complaint bytes.Buffer
		command.Stdout, command.Stderr = &out, &complaint
		err := command.Run()
		return out.String(), firstLine(complaint.String()), err
	}
	if plain, _, err := maps(""); err != nil || !strings.Contains(plain, "libc.so") {
		return nil // cat is statically linked
	}
	seen, complaint, err := maps(library)
	switch {
	case err != nil:
		return fmt.Errorf("%s: a program with it fails: %w", library, errors.Join(err, text(complaint)))
	case !strings.Contains(seen, library):
		return fmt.Errorf("%s does not load: %s", library, complaint)
	}
	return nil
}

func text(complaint string) error {
	if complaint == "" {
		return nil
	}
	return errors.New(complaint)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
