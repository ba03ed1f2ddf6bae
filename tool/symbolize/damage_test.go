package symbolize

import (
	"math/rand"
	"os"
	"path/filepath"
	"testing"

	"seemalloc/tool/testseed"
)

// A damaged file costs symbols but never the report: no panic, no endless loop.
func TestDamagedFiles(t *testing.T) {
	path := compile(t)
	program := start(t, path)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	o := openObject(path)
	defer o.close()
	seed := testseed.Of(t)
	random := rand.New(rand.NewSource(seed))
	sections := []string{".debug_info", ".debug_abbrev", ".debug_line", ".debug_rnglists", ".debug_str", ".symtab", ".eh_frame_hdr"}
	copied := filepath.Join(t.TempDir(), "damaged")
	for round := range 140 {
		data := append([]byte(nil), whole...)
		name := sections[round%len(sections)]
		section := o.elf.Section(name)
		if section == nil {
			continue
		}
		for range 1 + random.Intn(20) {
			data[section.Offset+uint64(random.Int63n(int64(section.FileSize)))] = byte(random.Intn(256))
		}
		if round%10 == 0 {
			data = data[:random.Intn(len(data))]
		}
		if err := os.WriteFile(copied, data, 0o644); err != nil {
			t.Fatal(err)
		}
		p := program.profile(t, "")
		for _, m := range p.Mapping {
			if m.File == path {
				m.File = copied
			}
		}
		Profile(p, Files{})
		if err := p.CheckValid(); err != nil {
			t.Errorf("round %d, %s: %v", round, name, err)
		}
	}
}
