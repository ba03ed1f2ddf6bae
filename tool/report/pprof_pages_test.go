package report

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/pprof/profile"
)

// Pages work after a report of a profile with other types: pprof keeps its settings in globals.
func TestPagesAfterAReportOfOtherTypes(t *testing.T) {
	of := func(name string) *profile.Profile {
		f := &profile.Function{ID: 1, Name: "f", SystemName: "f"}
		l := &profile.Location{ID: 1, Line: []profile.Line{{Function: f, Line: 1}}}
		return &profile.Profile{
			SampleType: []*profile.ValueType{{Type: name, Unit: "bytes"}}, Function: []*profile.Function{f}, Location: []*profile.Location{l},
			Sample: []*profile.Sample{{Location: []*profile.Location{l}, Value: []int64{7}}},
		}
	}
	if _, err := Pprof(of("inuse_space"), 0, "peek", "f", nil); err != nil {
		t.Fatal(err)
	}
	pages, err := PprofPages(of("alloc_space"))
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	pages["top"].ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/top", nil))
	if answer.Code != http.StatusOK {
		t.Errorf("%d %.300s", answer.Code, answer.Body)
	}
}
