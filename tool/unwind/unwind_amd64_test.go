package unwind_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/google/pprof/profile"
	"golang.org/x/sys/unix"

	"seemalloc/tool/symbolize"
	"seemalloc/tool/unwind"
)

// stepper is a program that is stopped at a breakpoint and continues by single instructions.
type stepper struct {
	pid    int
	memory *os.File
	code   *mapped
}

// startStepper runs the program to its first breakpoint. Requires: the goroutine is locked to its thread.
func startStepper(t *testing.T, program string) *stepper {
	t.Helper()
	command := exec.Command(program)
	command.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := command.Start(); errors.Is(err, unix.EPERM) {
		t.Skipf("ptrace is not permitted here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	s := &stepper{pid: command.Process.Pid}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	s.wait(t, unix.SIGTRAP)
	if err := unix.PtraceCont(s.pid, 0); err != nil {
		t.Fatal(err)
	}
	s.wait(t, unix.SIGTRAP)
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", s.pid))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	s.memory = memory
	s.code = &mapped{list: symbolize.Mappings(s.pid), tables: map[*profile.Mapping]*unwind.Tables{}}
	return s
}

// wait returns the signal at which the program has stopped.
func (s *stepper) wait(t *testing.T, want unix.Signal) unix.Signal {
	t.Helper()
	var status unix.WaitStatus
	if _, err := unix.Wait4(s.pid, &status, 0, nil); err != nil || !status.Stopped() {
		t.Fatalf("%v, status %#x", err, status)
	}
	if want != 0 && status.StopSignal() != want {
		t.Fatalf("stopped by %v", status.StopSignal())
	}
	return status.StopSignal()
}

// step executes one instruction, or delivers the signal.
func (s *stepper) step(t *testing.T, signal unix.Signal) {
	t.Helper()
	_, _, failure := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SINGLESTEP, uintptr(s.pid), 0, uintptr(signal), 0, 0)
	if failure != 0 {
		t.Fatal(failure)
	}
}

func (s *stepper) registers(t *testing.T) unwind.Registers {
	t.Helper()
	var r unix.PtraceRegs
	if err := unix.PtraceGetRegs(s.pid, &r); err != nil {
		t.Fatal(err)
	}
	return unwind.Registers{r.Rax, r.Rdx, r.Rcx, r.Rbx, r.Rsi, r.Rdi, r.Rbp, r.Rsp, r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15, r.Rip}
}

func (s *stepper) walk(t *testing.T, registers unwind.Registers) ([]uint64, unwind.Outcome) {
	t.Helper()
	top := make([]byte, 16<<10)
	n, err := s.memory.ReadAt(top, int64(registers[7]))
	if n == 0 && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return unwind.Walk(s.code, registers, top[:n])
}

// atBreakpoint reports whether the last instruction was an int3 of the program.
func (s *stepper) atBreakpoint(pc uint64) bool {
	var before [1]byte
	_, err := s.memory.ReadAt(before[:], int64(pc-1))
	return err == nil && before[0] == 0xcc && s.code.find(pc) == s.code.list[0]
}

// At every instruction the walk ends in the caller of main: in prologues and epilogues, library stubs, the dynamic
// linker's binding, the vDSO, and during the delivery of a signal and the return from it.
func TestUnwindFromEveryInstruction(t *testing.T) {
	runtime.LockOSThread() // ptrace requests must come from the same thread
	defer runtime.UnlockOSThread()
	for _, flags := range [][]string{{"-O2", "-fomit-frame-pointer"}, {"-O1", "-fno-omit-frame-pointer"}, {"-O0"}} {
		program := filepath.Join(t.TempDir(), "steps")
		if out, err := exec.Command("cc", append(flags, "-Wl,-z,lazy", "testdata/steps.c", "-o", program)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		s := startStepper(t, program)
		first, outcome := s.walk(t, s.registers(t))
		if outcome != unwind.Complete || len(first) < 3 {
			t.Fatalf("%v: outcome %d, %x", flags, outcome, first)
		}
		above := first[1:]
		steps, wrong := 0, map[string]int{}
		for signal := unix.Signal(0); ; steps++ {
			s.step(t, signal)
			if signal = s.wait(t, 0); signal == unix.SIGTRAP {
				signal = 0
			}
			registers := s.registers(t)
			if s.atBreakpoint(registers[16]) {
				break
			}
			frames, outcome := s.walk(t, registers)
			if outcome != unwind.Complete || len(frames) <= len(above) || !slices.Equal(frames[len(frames)-len(above):], above) {
				m := s.code.find(registers[16])
				if m == nil {
					m = &profile.Mapping{File: "no code"}
				}
				wrong[fmt.Sprintf("%s+%#x", filepath.Base(m.File), registers[16]-m.Start+m.Offset)]++
			}
		}
		if steps < 1000 || len(wrong) != 0 {
			t.Errorf("%v: of %d steps the stacks are wrong at %v", flags, steps, wrong)
		}
		t.Logf("%v: %d steps", flags, steps)
	}
}
