package web

import (
	"errors"
	"io"

	"github.com/google/pprof/profile"

	"seemalloc/tool/formats"
)

func init() {
	formats.Register(formats.Format{Name: "html", Extensions: []string{".html"}, Named: true, Notes: true,
		Help: "the page of `seemalloc report` with this profile, for a browser"}, writeHTML)
}

// writeHTML writes a report that contains one profile. The page has no view of a profile that is a difference.
func writeHTML(w io.Writer, p *profile.Profile, o formats.Options) (formats.Omitted, error) {
	for _, sample := range p.Sample {
		for _, value := range sample.Value {
			if value < 0 {
				return formats.Omitted{}, errors.New("html cannot show a difference: save both profiles, and give them to `seemalloc report`")
			}
		}
	}
	history := &History{}
	history.AddFile(o.Source, p)
	server, err := NewServer(Options{Title: o.Source}, history, nil, nil)
	if err != nil {
		return formats.Omitted{}, err
	}
	return formats.Omitted{}, server.Report(w)
}
