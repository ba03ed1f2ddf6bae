package doctor

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"seemalloc/tool/attach"
)

// A group outside the mounted hierarchy has the limit that the process reports. An unknown limit is not the same as no
// limit.
func TestLimitVisibleOnlyToTheProcess(t *testing.T) {
	if got := ownLimit(attach.Pressure{Limit: 1000, Usage: 900}); len(got) != 1 || got[0].Bytes != 1000 || got[0].Used != 900 {
		t.Errorf("%+v", got)
	}
	if got := ownLimit(attach.Pressure{}); got != nil {
		t.Errorf("%+v", got)
	}
}

func TestMemoryGroups(t *testing.T) {
	const v1 = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
		"36 31 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	const v2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	const container = "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n"
	for _, test := range []struct {
		groups, mounts string
		want           []memoryGroup
		outside        bool
	}{
		{"5:cpu:/x\n4:memory:/a/b\n0::/\n", v1, []memoryGroup{{"/sys/fs/cgroup/memory", "/a/b"}, {"/sys/fs/cgroup/unified", "/"}}, false},
		{"0::/user.slice/app.service\n", v2, []memoryGroup{{"/sys/fs/cgroup", "/user.slice/app.service"}}, false},
		{"0::/docker/abc/job\n", container, []memoryGroup{{"/sys/fs/cgroup", "/job"}}, false},
		{"0::/docker/abc\n", container, []memoryGroup{{"/sys/fs/cgroup", "/"}}, false},
		{"0::/docker/abcdef\n", container, nil, true},
		{"0::/docker/other/job\n", container, nil, true},
		{"0::/../other\n", v2, nil, true},
		{"0::/docker/abc/job\n", "29 23 0:26 /docker/other /mnt rw - cgroup2 cgroup rw\n" + container, []memoryGroup{{"/sys/fs/cgroup", "/job"}}, false},
		{"0::/\n", "", nil, false},
		{"nonsense", v2, nil, false},
	} {
		if got, all := memoryGroups(test.groups, test.mounts); !reflect.DeepEqual(got, test.want) || all == test.outside {
			t.Errorf("%q: got %v, want %v; all of it: %v", test.groups, got, test.want, all)
		}
	}
}

func TestLimitsOfAGroup(t *testing.T) {
	write := func(folder string, files map[string]string) string {
		folder = filepath.Join(t.TempDir(), folder)
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return folder
	}
	v2 := write("v2", map[string]string{"memory.max": "1000\n", "memory.high": "max\n", "memory.current": "900\n",
		"memory.stat": "anon 600\ninactive_file 200\nactive_file 100\n", "memory.events": "low 0\nhigh 3\nmax 4\noom 1\noom_kill 2\n"})
	if got := limitsOf(v2, "/a"); !reflect.DeepEqual(got, []Limit{{"/a", "memory.max", 1000, 600, 4, 2}}) {
		t.Errorf("%+v", got)
	}
	v1 := write("v1", map[string]string{"memory.limit_in_bytes": "2000\n", "memory.usage_in_bytes": "900\n",
		"memory.stat": "inactive_file 1\ntotal_inactive_file 400\ntotal_active_file 600\n", "memory.failcnt": "7\n", "memory.oom_control": "oom_kill_disable 0\noom_kill 1\n"})
	if got := limitsOf(v1, "/b"); !reflect.DeepEqual(got, []Limit{{"/b", "memory.limit_in_bytes", 2000, 0, 7, 1}}) {
		t.Errorf("%+v", got)
	}
	none := write("none", map[string]string{"memory.limit_in_bytes": "9223372036854771712\n"})
	if got := limitsOf(none, "/"); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestTasksAndMemoryOfThisProcess(t *testing.T) {
	pid := os.Getpid()
	tasks := readTasks(pid)
	if task, known := tasks[pid]; !known || task.Name == "" {
		t.Errorf("%+v", tasks)
	}
	if m := readMemory(pid); m == nil || m.RSS < mib {
		t.Errorf("%+v", m)
	}
	if readTasks(1<<30) != nil || readMemory(1<<30) != nil || readLimits(1<<30, attach.Pressure{}) != nil {
		t.Error("of a process that is not there")
	}
	if tid, name := taskStatus("Name:\ta b\nPid:\t12\nNSpid:\t12\t3\n"); tid != 3 || name != "a b" {
		t.Errorf("%d %q", tid, name)
	}
	if m := parseMemory("00-ff ---p 00 00:00 0 [rollup]\nRss:   12 kB\nAnonHugePages:   2048 kB\n"); m == nil || *m != (Memory{12 * kib, 2 * mib}) {
		t.Errorf("%+v", m)
	}
}
