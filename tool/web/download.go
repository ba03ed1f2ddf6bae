package web

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"net/url"

	"github.com/google/pprof/profile"

	"seemalloc/tool/formats"
	"seemalloc/tool/report"
)

// saved returns a copy of the profile in a view: the rows that pass the filters, or their changes.
func (s *Server) saved(q url.Values) (*profile.Profile, error) {
	p, base, err := s.compared(q)
	if err != nil {
		return nil, err
	}
	filter, err := newLabelFilter(q)
	if err != nil {
		return nil, err
	}
	p = filter.apply(p).Copy()
	if base == nil {
		return p, nil
	}
	change, err := report.Subtract(p, filter.apply(base).Copy())
	if err != nil {
		return nil, problem{http.StatusBadRequest, err}
	}
	return change, nil
}

// download writes the selection in one of the formats. A format with one value per stack gets that of the selected
// type.
func (s *Server) download(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	format := formats.ByName(q.Get("format"))
	p, err := s.saved(q)
	if format == nil {
		err = badRequest("format=%q: expected one of %s", q.Get("format"), formats.Names())
	}
	index := 0
	if err == nil {
		if index, err = report.SampleIndex(p, q.Get("type"), "bytes"); err != nil {
			err = problem{http.StatusBadRequest, err}
		}
	}
	var body bytes.Buffer
	if err == nil {
		options := formats.Options{Source: s.options.Title, Index: index}
		_, err = format.Write(&body, p, options)
	}
	if err != nil {
		reply(w, func() (any, error) { return nil, err })
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	kind := cmp.Or(q.Get("kind"), "heap")
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", "seemalloc."+kind+format.Extensions[0]))
	_, _ = w.Write(body.Bytes())
}
