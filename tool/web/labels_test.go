package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"seemalloc/tool/report"
)

// labelled has rows with three sizes and two pools. The fourth row has no label.
func labelled(t time.Time, scale int64) *profile.Profile {
	p := heapOf(t, map[string]int64{"f": 0})
	row := p.Sample[0]
	p.Sample = nil
	for i, size := range []int64{16, 1024, 65536, 0} {
		values := make([]int64, len(row.Value))
		for j := range values {
			values[j] = scale * int64(1+10*i)
		}
		sample := &profile.Sample{Location: row.Location, Value: values}
		if size > 0 {
			sample.NumLabel, sample.NumUnit = map[string][]int64{"bytes": {size}}, map[string][]string{"bytes": {"bytes"}}
			sample.Label = map[string][]string{"pool": {[]string{"cache", "cache", "rows"}[i]}, "thread": {[]string{"main", "worker1", "worker2"}[i]}}
			sample.NumLabel["tid"], sample.NumUnit["tid"] = []int64{int64(100 + i)}, []string{"count"}
		}
		p.Sample = append(p.Sample, sample)
	}
	return p
}

func TestRowsAreChosenBySizeAndLabel(t *testing.T) {
	h := &History{}
	h.AddProfile(labelled(time.Unix(1e9, 0), 1))
	h.AddProfile(labelled(time.Unix(1e9+60, 0), 100))
	server, err := NewServer(Options{}, h, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	base := listen(t, server)
	for query, want := range map[string]int64{
		"":                             1 + 11 + 21 + 31,
		"&size_from=16&size_to=16":     1,
		"&size_from=17":                11 + 21,
		"&size_to=1024":                1 + 11,
		"&size_from=1024&size_to=1024": 11,
		"&size_from=2048&size_to=4096": 0,
		"&labels=" + url.QueryEscape("pool=cache"):           1 + 11,
		"&labels=" + url.QueryEscape("pool=cache&pool=rows"): 1 + 11 + 21,
		"&labels=" + url.QueryEscape("pool=none"):            0,
		"&thread=worker":              11 + 21,
		"&thread=%5Emain%24":          1,
		"&thread=102":                 21,
		"&thread=10":                  0,
		"&thread=worker&size_to=1024": 11,
		"&size_to=16&labels=" + url.QueryEscape("pool=rows"): 0,
	} {
		var stacks Stacks
		if status, body := get(t, base+"api/profile?at=2&base=1"+query, &stacks); status != http.StatusOK {
			t.Fatalf("%s: %d %s", query, status, body)
		}
		last := len(stacks.Types) - 1
		sum, before := int64(0), int64(0)
		for i := range stacks.Values {
			sum += stacks.Values[i][last]
			before += stacks.Base[i][last]
		}
		if sum != 100*want || before != want {
			t.Errorf("%s: %d after %d instead of %d after %d", query, sum, before, 100*want, want)
		}
		// A saved profile equals the displayed one.
		for compared, want := range map[string]int64{"at=2": 100 * want, "at=2&base=1": 99 * want} {
			status, body := get(t, base+"api/download?format=proto&"+compared+query, nil)
			saved, err := profile.ParseData([]byte(body))
			if status != http.StatusOK || err != nil {
				t.Fatalf("%s%s: %d %v", compared, query, status, err)
			}
			if got := report.Total(saved, len(saved.SampleType)-1); got != want {
				t.Errorf("%s%s is saved as %d instead of %d", compared, query, got, want)
			}
		}
		if stacks.Labels.Least != 16 || stacks.Labels.Most != 65536 || strings.Join(stacks.Labels.Texts["pool"], " ") != "cache rows" {
			t.Errorf("%s: labels %+v: those of all rows were expected", query, stacks.Labels)
		}
	}
	if m, _ := h.Moment(2); len(m.profile.Sample) != 4 {
		t.Error("the kept profile has been filtered")
	}
	for query, want := range map[string]string{"size_from=x": "expected a number", "size_from=-1": "sizes of blocks", "size_from=5&size_to=4": "more than", "labels=%25zz": "labels", "thread=(": "thread=(: expected a thread's id, or a regular expression: missing closing )"} {
		if status, body := get(t, base+"api/profile?at=2&"+query, nil); status != http.StatusBadRequest || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
	for query, want := range map[string]string{"focus=(": "focus=(: expected a regular expression: missing closing ): `(`", "ignore=(%3F%3Dx)": "ignore=(?=x): expected a regular expression: invalid or unsupported Perl syntax: `(?=`"} {
		if status, body := get(t, base+"api/suspects?"+query, nil); status != http.StatusBadRequest || strings.TrimSpace(body) != want {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
}
