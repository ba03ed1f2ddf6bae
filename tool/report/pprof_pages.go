package report

import (
	"errors"
	"net/http"
	"sync"

	"github.com/google/pprof/driver"
	"github.com/google/pprof/profile"
)

// pprofSettings guards pprof's settings, which are globals, while pages are created.
var pprofSettings sync.Mutex

// PprofPages returns the handlers of pprof's web interface for a profile, by page name ("top", "graph", "peek", …),
// except those that write its settings to disk. The profile must be symbolized. Disassembly opens the files of its
// mappings and runs objdump. The graph runs dot. Safe for concurrent use, but not concurrently with Pprof.
func PprofPages(p *profile.Profile) (map[string]http.Handler, error) {
	pprofSettings.Lock()
	defer pprofSettings.Unlock()
	pages := map[string]http.Handler{}
	take := func(args *driver.HTTPServerArgs) error {
		for _, name := range []string{"top", "graph", "flamegraph", "peek", "source", "disasm", "download"} {
			if handler := args.Handlers["/"+name]; handler != nil {
				pages[name] = handler
			}
		}
		return nil
	}
	err := driver.PProf(&driver.Options{
		// pprof keeps the values of an earlier report as defaults. Its types may not exist in this profile.
		Flagset: pprofFlags{"http": "localhost:0", "no_browser": "true", "sample_index": "", "unit": "minimum"}, Fetch: pprofFetcher{p.Copy()}, Sym: pprofNames{},
		UI: &pprofUI{}, HTTPServer: take,
	})
	if err == nil && len(pages) == 0 {
		err = errors.New("pprof has no pages")
	}
	return pages, err
}
