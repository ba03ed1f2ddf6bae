package symbolize

import (
	"errors"
	"testing"
)

func TestKernelNames(t *testing.T) {
	k, err := parseKernel("ffffffff81000200 T second\nffffffff81000000 T _stext\nffffffff81000000 T first\n" +
		"ffffffff81000100 d data\nffffffffc0000000 t of_a_module\t[module]\nnot a line\n")
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[uint64]string{
		0x1000: "", 0xffffffff81000000: "first", 0xffffffff810001ff: "first", 0xffffffff81000200: "second",
		0xffffffff81000201: "second", 0xffffffffc0000fff: "of_a_module",
	} {
		if got := k.Name(address); got != want {
			t.Errorf("%#x: %q, want %q", address, got, want)
		}
	}
	if _, err := parseKernel("0000000000000000 T _stext\n0000000000000000 T first\n"); !errors.Is(err, ErrHidden) {
		t.Errorf("hidden addresses: %v", err)
	}
	var none *Kernel
	if none.Name(1) != "" {
		t.Error("a name from nowhere")
	}
}
