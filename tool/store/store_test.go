package store

import (
	"bufio"
	"bytes"
	"database/sql"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"seemalloc/tool/testseed"
)

func create(t *testing.T, dir string, limit int64) *Store {
	t.Helper()
	s, err := Create(dir, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestStoreRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a folder % with ? #") // all of these characters are special in a URI
	s := create(t, dir, 0)
	run, err := s.Begin(1000, "redis-server (pid 12)", 12)
	must(t, err)
	for i := range 10 {
		must(t, s.AddPoint(int64(1000*i), []byte(fmt.Sprint("point ", i))))
	}
	must(t, s.AddMoment(Moment{ID: 1, Time: 1500, InUse: 77, Run: run}, []byte("profile 1")))
	must(t, s.AddMoment(Moment{ID: 2, Time: 2500, InUse: 88, Pinned: true, Run: run}, []byte("profile 2")))
	must(t, s.StoreAnswer("stats", []byte("old")))
	must(t, s.StoreAnswer("stats", []byte("new")))
	must(t, s.Close())
	for _, name := range []string{"", file, "lock"} {
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%q is open to others: %s", name, info.Mode())
		}
	}

	again, err := Open(dir)
	must(t, err)
	defer again.Close()
	points, err := again.Points(2000, 8000, 100)
	must(t, err)
	if len(points) != 7 || string(points[0]) != "point 2" || string(points[6]) != "point 8" {
		t.Errorf("%q", points)
	}
	points, err = again.Points(0, 1e6, 4)
	must(t, err)
	if len(points) > 5 || string(points[0]) != "point 0" || string(points[len(points)-1]) != "point 9" {
		t.Errorf("%q", points)
	}
	if all := again.Moments(0, 0, 1e6, 10); len(all) != 2 || all[1] != (Moment{2, 2500, 88, true, run}) {
		t.Errorf("%v", all)
	}
	if few := again.Moments(0, 0, 1e6, 1); len(few) != 1 || !few[0].Pinned {
		t.Errorf("%v", few)
	}
	if data, err := again.Profile(1); err != nil || string(data) != "profile 1" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := again.Profile(7); err == nil || !strings.Contains(err.Error(), "profile 7") {
		t.Error(err)
	}
	if note, err := again.LastAnswer("stats"); err != nil || string(note) != "new" {
		t.Errorf("%q, %v", note, err)
	}
	if note, err := again.LastAnswer("nothing"); err != nil || note != nil {
		t.Errorf("%q, %v", note, err)
	}
	if last, err := again.LastRun(); err != nil || last == nil || *last != (Run{run, 1000, "redis-server (pid 12)", 12}) {
		t.Errorf("%v, %v", last, err)
	}
	if again.LastID() != 2 {
		t.Error(again.LastID())
	}
}

// The answers of the previous process are not shown for the next one.
func TestAnswersBelongToTheLastRun(t *testing.T) {
	s := create(t, t.TempDir(), 0)
	for run := 1; run <= 2; run++ {
		id, err := s.Begin(int64(1000*run), fmt.Sprint("run ", run), run)
		must(t, err)
		if note, err := s.LastAnswer("doctor"); err != nil || note != nil {
			t.Errorf("run %d begins with %q, %v", run, note, err)
		}
		must(t, s.StoreAnswer("doctor", []byte("ill")))
		must(t, s.AddMoment(Moment{ID: run, Time: 5000, Run: id}, []byte("p")))
		if of := s.Moments(id, 0, 9000, 10); len(of) != 1 || of[0].ID != run {
			t.Errorf("of run %d: %v", run, of)
		}
	}
	if all := s.Moments(0, 0, 9000, 10); len(all) != 2 {
		t.Errorf("of both: %v", all)
	}
}

// Ten times the limit is written. The directory never exceeds its limit, and the remaining data is spread over the
// whole time.
func TestStoreSizeIsBounded(t *testing.T) {
	seed := testseed.Of(t)
	random := rand.New(rand.NewSource(seed))
	dir := t.TempDir()
	s := create(t, dir, MinSize)
	written, now, largest := int64(0), int64(1e12), int64(0)
	asked, id := 0, 0
	for written < 10*MinSize {
		now += 1000
		point := bytes.Repeat([]byte("p"), 200+random.Intn(300))
		must(t, s.AddPoint(now, point))
		written += int64(len(point))
		if random.Intn(3) == 0 {
			id++
			data := make([]byte, random.Intn(300_000))
			if random.Intn(50) == 0 {
				data = make([]byte, MinSize/8)
			}
			random.Read(data)
			m := Moment{ID: id, Time: now, Pinned: id == 5}
			if m.Pinned {
				asked = id
			}
			must(t, s.AddMoment(m, data))
			written += int64(len(data))
		}
		must(t, s.StoreAnswer("stats", point))
		if size := folderBytes(t, dir); size > largest {
			largest = size
		}
	}
	t.Logf("%d profiles, %d of them stay; at most %d bytes", id, len(s.moments), largest)
	if largest > MinSize {
		t.Errorf("the folder had %d bytes; it may have %d", largest, MinSize)
	}
	if largest < MinSize/2 {
		t.Errorf("the folder had no more than %d bytes; it may have %d", largest, MinSize)
	}
	all := s.Moments(0, 0, now, 1e6)
	if all[0].ID != 1 || all[len(all)-1].ID != id {
		t.Errorf("from %d to %d, of 1 to %d", all[0].ID, all[len(all)-1].ID, id)
	}
	if _, found := s.Moment(asked); !found {
		t.Error("the one that was asked for is gone")
	}
	for _, m := range all {
		if _, err := s.Profile(m.ID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Points(now, now, 10); err != nil {
		t.Error(err)
	}
	if err := s.AddMoment(Moment{ID: id + 1}, make([]byte, MinSize/8+1)); err == nil || !strings.Contains(err.Error(), "--store-size") {
		t.Errorf("too large a profile: %v", err)
	}
}

// Answers may be as large as profiles: moments are deleted to make room for them.
func TestAnswersFitBesideMoments(t *testing.T) {
	dir := t.TempDir()
	s := create(t, dir, MinSize)
	random := rand.New(rand.NewSource(testseed.Of(t)))
	some := func(n int) []byte {
		data := make([]byte, n)
		random.Read(data)
		return data
	}
	const answers, most = 12, MinSize / notePart
	last := map[string][]byte{}
	for i := range 120 {
		must(t, s.AddMoment(Moment{ID: i + 1, Time: int64(1000 * i)}, some(300_000)))
		for j := range answers {
			if i%40 == 39 { // one after the other when the directory is full
				name := fmt.Sprint("profile ", j)
				last[name] = some(most)
				must(t, s.StoreAnswer(name, last[name]))
			}
		}
	}
	if err := s.StoreAnswer("profile 0", some(most+1)); err == nil || !strings.Contains(err.Error(), "profile 0 of 524289 bytes is too large") || !strings.Contains(err.Error(), "--store-size") {
		t.Errorf("one that is too large: %v", err)
	}
	names, err := s.AnswerNames()
	must(t, err)
	if len(names) != answers {
		t.Errorf("%d answers: %v", len(names), names)
	}
	for name, want := range last {
		if got, err := s.LastAnswer(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what was written: %v", name, err)
		}
	}
	if all := s.Moments(0, 0, 1e12, 1000); len(all) < 3 {
		t.Errorf("%d moments are left", len(all))
	}
	if size := folderBytes(t, dir); size > MinSize {
		t.Errorf("the folder has %d bytes", size)
	}
}

func TestPointsAreThinned(t *testing.T) {
	dir := t.TempDir()
	s := create(t, dir, MinSize)
	const count = 20_000
	for i := range count {
		if err := s.AddPoint(int64(i), bytes.Repeat([]byte("p"), 500)); err != nil {
			t.Fatal(err)
		}
	}
	if size := folderBytes(t, dir); size > MinSize {
		t.Errorf("%d bytes", size)
	}
	recent, err := s.Points(count-1000, count, count)
	must(t, err)
	all, err := s.Points(0, 0, 10)
	must(t, err)
	if len(recent) != 1000 || len(all) != 1 {
		t.Errorf("%d of the last 1000; %d of the first", len(recent), len(all))
	}
}

func folderBytes(t *testing.T, dir string) (sum int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

// The child writes as fast as it can and reports each write. After it has been killed, all reported data is there.
func TestKilledToolLosesNothing(t *testing.T) {
	if dir := os.Getenv("SEEMALLOC_STORE_TEST"); dir != "" {
		s, err := Create(dir, MinSize)
		must(t, err)
		for i := s.LastID() + 1; ; i++ {
			must(t, s.AddMoment(Moment{ID: i, Time: int64(i)}, bytes.Repeat([]byte{byte(i)}, 20_000)))
			must(t, s.AddPoint(int64(i), []byte(strconv.Itoa(i))))
			fmt.Println("written", i)
		}
	}
	dir := t.TempDir()
	for round := range 5 {
		child := exec.Command(os.Args[0], "-test.run", t.Name())
		child.Env = append(os.Environ(), "SEEMALLOC_STORE_TEST="+dir)
		pipe, err := child.StdoutPipe()
		must(t, err)
		must(t, child.Start())
		lines, last := bufio.NewScanner(pipe), 0
		stop := time.Now().Add(time.Duration(50+rand.Intn(300)) * time.Millisecond)
		for lines.Scan() {
			if _, err := fmt.Sscanf(lines.Text(), "written %d", &last); err == nil && time.Now().After(stop) {
				break
			}
		}
		if round == 0 {
			if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("in use by another seemalloc (pid %d)", child.Process.Pid)) {
				t.Errorf("while it is written: %v", err)
			}
		}
		must(t, child.Process.Kill())
		s, err := Open(dir) // waits until the child has ended
		_ = child.Wait()
		must(t, err)
		points, err := s.Points(int64(last), int64(last), 10)
		must(t, err)
		if s.LastID() < last || len(points) != 1 {
			t.Fatalf("round %d: %d was written, %d is there, %d points", round, last, s.LastID(), len(points))
		}
		id := s.LastID() // earlier ones may have been deleted to make room for data that the child had no time to report
		data, err := s.Profile(id)
		must(t, err)
		if !bytes.Equal(data, bytes.Repeat([]byte{byte(id)}, 20_000)) {
			t.Errorf("round %d: the profile is another one", round)
		}
		must(t, s.Close())
	}
}

func TestOtherDirectoriesAreRefused(t *testing.T) {
	written := func(t *testing.T) string {
		dir := t.TempDir()
		s := create(t, dir, 0)
		for i := range 50 {
			must(t, s.AddMoment(Moment{ID: i + 1, Time: int64(i)}, bytes.Repeat([]byte("x"), 10_000)))
		}
		must(t, s.Close())
		return dir
	}
	change := func(t *testing.T, dir, statement string) {
		db, err := sql.Open("sqlite", filepath.Join(dir, file))
		must(t, err)
		defer db.Close()
		_, err = db.Exec(statement)
		must(t, err)
	}
	overwrite := func(t *testing.T, dir string, at int64, with []byte) {
		f, err := os.OpenFile(filepath.Join(dir, file), os.O_RDWR, 0)
		must(t, err)
		defer f.Close()
		_, err = f.WriteAt(with, at)
		must(t, err)
	}
	for name, c := range map[string]struct {
		dir  func(*testing.T) string
		want string
	}{
		"newer":   {func(t *testing.T) string { d := written(t); change(t, d, "PRAGMA user_version = 9"); return d }, "written by a newer seemalloc (format 9; this one reads up to 1)"},
		"another": {func(t *testing.T) string { d := written(t); change(t, d, "PRAGMA application_id = 7"); return d }, "a database of another program"},
		"text": {func(t *testing.T) string {
			d := t.TempDir()
			must(t, os.WriteFile(filepath.Join(d, file), bytes.Repeat([]byte("text "), 1000), 0o600))
			return d
		}, "is damaged"},
		"a page": {func(t *testing.T) string {
			d := written(t)
			overwrite(t, d, 3*pageBytes, bytes.Repeat([]byte{0xa5}, 3*pageBytes))
			return d
		}, "is damaged"},
		"cut": {func(t *testing.T) string {
			d := written(t)
			must(t, os.Truncate(filepath.Join(d, file), 20*pageBytes))
			return d
		}, "is damaged"},
		"empty":  {func(t *testing.T) string { return t.TempDir() }, "there is no history.db in it"},
		"absent": {func(t *testing.T) string { return filepath.Join(t.TempDir(), "absent") }, "absent: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := c.dir(t)
			if s, err := Open(dir); err == nil {
				s.Close()
				t.Error("it is opened")
			} else if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("%v", err)
			}
		})
	}
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "letter.txt"), nil, 0o600))
	if _, err := Create(dir, 0); err == nil || !strings.Contains(err.Error(), "holds other files") {
		t.Errorf("a folder with other files: %v", err)
	}
	if _, err := Create(filepath.Join(dir, "letter.txt", "below"), 0); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("below a file: %v", err)
	}
}

// A directory that contains a file called "lock" is not necessarily ours, and its contents are kept.
func TestForeignLockFileIsNotRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string // "": it is our directory
	}{
		"beside others":       {map[string]string{"lock": "", "letter.txt": "Dear"}, "holds other files"},
		"a pid beside others": {map[string]string{"lock": "12\n", "Packages": ""}, "holds other files"},
		"text":                {map[string]string{"lock": "version: 4\n"}, "lock: not a seemalloc file"},
		"text, history":       {map[string]string{"lock": "version: 4\n", file: ""}, "lock: not a seemalloc file"},
		"long":                {map[string]string{"lock": strings.Repeat("1", 40)}, "lock: not a seemalloc file"},
		"killed early":        {map[string]string{"lock": ""}, ""},
		"killed later":        {map[string]string{"lock": "12\n"}, ""},
		"killed even later":   {map[string]string{"lock": "12\n", file: ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range c.files {
				must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			s, err := Create(dir, 0)
			if err == nil {
				defer s.Close()
			}
			if c.want == "" {
				must(t, err)
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
			for name, text := range c.files {
				if now, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(now) != text {
					t.Errorf("%s is %q, %v", name, now, err)
				}
			}
		})
	}
}
