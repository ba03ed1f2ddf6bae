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

// A folder also stores the last profile of each other kind and the last map, so that all views work after the process
// has ended. They are taken one after the other, whether or not a page shows them.

const (
	keptBetween = time.Minute // minimum time between two profiles of one kind
	keptProfile = "profile "  // prefix of the names of answers, followed by the kind
	keptMap     = "map"
)

// NoteProfile stores the last profile of a kind, which is shown after the process has ended.
func (h *History) NoteProfile(kind string, p *profile.Profile) {
	data := h.disk.encoded(p)
	if data == nil {
		return
	}
	h.disk.wrote(keptProfile+kind, h.disk.store.Note(keptProfile+kind, data))
}

// notedProfile returns the stored profile of a kind.
func (h *History) notedProfile(kind string) (*profile.Profile, error) {
	if h.disk == nil {
		return nil, badRequest("saved profiles are shown: there is no process to query")
	}
	data, err := h.disk.store.Noted(keptProfile + kind)
	if err != nil {
		return nil, err
	}
	if data == nil {
		return nil, problem{http.StatusNotFound, fmt.Errorf("%s: no profile of this kind was stored while the process was observed", kind)}
	}
	p, err := profile.ParseData(data)
	if err != nil {
		return nil, fmt.Errorf("%s: the %s profile in it is damaged: %w", h.disk.store.Dir(), kind, err)
	}
	return p, nil
}

// NotedKinds returns the kinds of which the folder has a profile. heap is always one of them.
func (h *History) NotedKinds(all []Kind) ([]Kind, error) {
	notes, err := h.disk.store.Notes()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(all), func(kind Kind) bool {
		return kind.Name != "heap" && !slices.Contains(notes, keptProfile+kind.Name)
	}), nil
}

// hasNote reports whether the folder has an answer with this name.
func (h *History) hasNote(name string) bool {
	notes, err := h.disk.store.Notes()
	return err == nil && slices.Contains(notes, name)
}

// keepOthers cycles through the kinds until the process ends. After each query it waits for a multiple of the query's
// duration, as for a page, so that the queries together take only their share of the process's time.
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
			if round > 0 { // no minimum wait in the first round, because the process may end soon
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

// keepOne returns the time for which the process was busy; 0: it was not queried.
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

// isMissing reports whether the error means that an older library, or a folder written with it, does not have this
// profile.
func isMissing(err error) bool {
	var refused *attach.ServerError
	var known problem
	return errors.As(err, &refused) || errors.As(err, &known) && known.status == http.StatusNotFound
}
