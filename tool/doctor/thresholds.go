package doctor

// The values at which checks report a finding. docs/doctor.md explains each.
const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30

	// Memory that is purged and reused, per second: 16 MiB are 4096 page faults, about 1 % of a processor's time. It
	// must also be at least a fifth of the purged memory; then the default policy would have lengthened its delay.
	stormRate, severeStormRate = 16 * mib, 256 * mib
	stormShare                 = 0.20

	// Wasted memory: in bytes, and as a share of the resident memory.
	wasteBytes           = 16 * mib
	wasteShare           = 0.10
	severeWasteShare     = 0.50
	fragmentedFreeToLive = 1.0  // of a size class: at least as many free bytes as live bytes
	dominantClassShare   = 0.80 // share of the free memory in half-empty classes from which one class is named instead of all

	// Blocks of other threads freed per second by a thread that allocates nothing: 100,000 take about 1 % of a
	// processor.
	remoteRate, severeRemoteRate = 100_000, 1_000_000
	refillsPerRemoteFree         = 0.01

	// A thread is idle if it used less than this share of a processor and did not use its heap.
	idleCPUShare = 0.01

	// Bytes copied by realloc per second. Memory is copied at some GB/s: one read and one write.
	copyRate, severeCopyRate = 64 * mib, gib

	// Shares of the limit of a cgroup.
	nearLimit, severeNearLimit = 0.90, 0.97

	// Growth is severe if it reaches a limit within an hour.
	severeSecondsLeft = 3600

	// Shares of the maximum number of mappings.
	nearMappings, severeNearMappings = 0.75, 0.95

	// Share of samples with incomplete stacks, and the minimum number of samples for a verdict.
	incompleteShare = 0.10
	minSamples      = 100

	// Maximum number of sites shown, and the minimum share of one site.
	maxSites  = 3
	siteShare = 0.05
)
