package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/google/pprof/profile"

	"seemalloc/tool/attach"
)

// In a folder there is also the last profile of each kind but heap, and the last map: so that all views work when the process is gone.
// They are taken one after the other, whether somebody looks or not.

const (
	keptBetween = time.Minute // from one profile of a kind to the next, at least
	keptProfile = "profile "  // names of answers: and the kind
	keptMap     = "map"
)

// NoteProfile keeps the last profile of a kind, to be shown when the process is gone.
func (h *History) NoteProfile(kind string, p *profile.Profile) {
	data := h.disk.encoded(p)
	if data == nil {
		return
	}
	h.disk.wrote(keptProfile+kind, h.disk.store.Note(keptProfile+kind, data))
}

// notedProfile is the last one of a kind.
func (h *History) notedProfile(kind string) (*profile.Profile, error) {
	if h.disk == nil {
		return nil, badRequest("this shows saved profiles: there is no process to ask")
	}
	data, err := h.disk.store.Noted(keptProfile + kind)
	if err != nil {
		return nil, err
	}
	if data == nil {
		return nil, problem{http.StatusNotFound, fmt.Errorf("%s: no profile of this kind was kept while the process was watched", kind)}
	}
	p, err := profile.ParseData(data)
	if err != nil {
		return nil, fmt.Errorf("%s: the %s profile in it is damaged: %w", h.disk.store.Dir(), kind, err)
	}
	return p, nil
}

// NotedKinds are those of all that a folder has a profile of; heap is one of them.
func (h *History) NotedKinds(all []Kind) ([]Kind, error) {
	notes, err := h.disk.store.Notes()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(all), func(kind Kind) bool {
		return kind.Name != "heap" && !slices.Contains(notes, keptProfile+kind.Name)
	}), nil
}

// hasNote says whether a folder has an answer of the name.
func (h *History) hasNote(name string) bool {
	notes, err := h.disk.store.Notes()
	return err == nil && slices.Contains(notes, name)
}

// keepOthers goes round the kinds until the process ends. Each look waits for so many times as long as the last one took as a page's
// would, and here nothing is looked at more often than that.
func (s *Server) keepOthers() {
	var kinds []string
	for _, kind := range s.options.Kinds {
		if kind.Name != "heap" {
			kinds = append(kinds, kind.Name)
		}
	}
	looks := len(kinds) + 1
	for round := 0; ; round++ {
		for _, kind := range append(slices.Clone(kinds), keptMap) {
			began := time.Now()
			took := s.keepOne(kind)
			wait := max(momentShare*took, toolShare*time.Since(began))
			if round > 0 { // a process may end soon
				wait = max(wait, keptBetween/time.Duration(looks))
			}
			select {
			case <-s.watcher.Ended():
				return
			case <-time.After(wait):
			}
		}
	}
}

// keepOne says what the process had to do with it; 0: it was known already.
func (s *Server) keepOne(name string) time.Duration {
	if name != keptMap {
		_, took, _ := s.takenIn(name)
		return took
	}
	began := time.Now()
	sums, err := s.mapOfAll(url.Values{})
	took := time.Since(began)
	if err == nil {
		s.history.Note(keptMap, sums)
	}
	return took
}

// isMissing: an older library, or a folder that it has written, has no such profile.
func isMissing(err error) bool {
	var refused *attach.ServerError
	var known problem
	return errors.As(err, &refused) || errors.As(err, &known) && known.status == http.StatusNotFound
}
