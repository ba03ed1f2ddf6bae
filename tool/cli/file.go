package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// fileError returns a one-line error for a file that cannot be read or written.
func fileError(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: no such file or folder: check the path", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: permission denied: run as its owner or choose another path", path)
	case errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("%s: is a folder: name a file in it", path)
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%s: no space left on the device: choose another path", path)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// writeFile writes path atomically: readers never see half a profile, and an existing file survives a full disk.
func writeFile(path string, data []byte) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fileError(path, syscall.EISDIR)
	} else if err == nil && !info.Mode().IsRegular() {
		// A device or a pipe (/dev/stdout, /dev/null) must be written to and not replaced.
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return fileError(path, err)
		}
		return nil
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		var where *fs.PathError
		if errors.As(err, &where) {
			err = where.Err
		}
		return fileError(path, err)
	}
	_, err = temporary.Write(data)
	if err == nil {
		err = temporary.Chmod(0o666 &^ umask())
	}
	if closeErr := temporary.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		os.Remove(temporary.Name())
		return fileError(path, err)
	}
	return nil
}

// umask returns the mask that os.Create would apply. Temporary files are private by default.
func umask() os.FileMode {
	mask := syscall.Umask(0o077)
	syscall.Umask(mask)
	return os.FileMode(mask)
}
