package attach

import (
	"os"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A thread like the helper works for a while: the meter shows its CPU time, not the time for which it sleeps.
func TestMeterShowsCPUTime(t *testing.T) {
	if _, known := threadCPU("/proc/self"); !known {
		t.Skip("this system does not tell the CPU time of threads")
	}
	orders, done := make(chan time.Duration), make(chan struct{})
	go onOtherThread(func() {
		name := append([]byte(helperName), 0)
		if err := unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0); err != nil {
			t.Error(err)
		}
		var all unix.Sigset_t
		for i := range all.Val {
			all.Val[i] = ^uint64(0)
		}
		if err := unix.PthreadSigmask(unix.SIG_BLOCK, &all, nil); err != nil {
			t.Error(err)
		}
		done <- struct{}{}
		for work := range orders {
			if work == 0 {
				time.Sleep(300 * time.Millisecond)
			}
			for began := threadTime(); threadTime()-began < work; {
			}
			done <- struct{}{}
		}
	})
	<-done
	defer close(orders)
	for _, work := range []time.Duration{0, 50 * time.Millisecond} {
		m := StartMeter(os.Getpid())
		orders <- work
		<-done
		if busy := m.Busy(); busy < work || busy > work+100*time.Millisecond {
			t.Errorf("%s of work: %s", work, busy)
		}
	}
}

// onOtherThread calls f on a thread that ends with it. It is not the main thread, which is never the helper thread.
func onOtherThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != os.Getpid() {
		f()
		return
	}
	ended := make(chan struct{})
	go func() { // another thread, while this one is locked
		defer close(ended)
		onOtherThread(f)
	}()
	<-ended
	runtime.UnlockOSThread()
}

// threadTime is the CPU time of the calling thread.
func threadTime() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now)
	return time.Duration(now.Nano())
}

// A process without such a thread, or that does not exist, is measured by elapsed time.
func TestMeterWithoutAHelper(t *testing.T) {
	m := StartMeter(1 << 30)
	time.Sleep(20 * time.Millisecond)
	if busy := m.Busy(); busy < 20*time.Millisecond {
		t.Errorf("%s", busy)
	}
}
