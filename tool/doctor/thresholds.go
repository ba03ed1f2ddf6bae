package doctor

// From here on something is a finding. docs/doctor.md explains each.
const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30

	// Memory given back and wanted again, per second: 16 MiB are 4096 page faults, about 1 % of a processor's time. It must be
	// a fifth of what was given back too: then the default policy would have lengthened its delay.
	stormRate, severeStormRate = 16 * mib, 256 * mib
	stormShare                 = 0.20

	// Memory that is there for nothing: bytes, and of the resident memory.
	wasteBytes           = 16 * mib
	wasteShare           = 0.10
	severeWasteShare     = 0.50
	fragmentedFreeToLive = 1.0  // of a size class: as many free bytes as live ones
	mostOfClasses        = 0.80 // of what half-empty classes have free: then one is named instead of all

	// Blocks of other threads freed per second by a thread that allocates nothing: 100,000 are about 1 % of a processor.
	remoteRate, severeRemoteRate = 100_000, 1_000_000
	refillsPerRemoteFree         = 0.01

	// A thread that used less of a processor than this, and has not come to its heap, was idle.
	idleCPUShare = 0.01

	// Bytes copied by realloc per second: memory is copied at some GB/s, once read and once written.
	copyRate, severeCopyRate = 64 * mib, gib

	// Of the limit of a cgroup.
	nearLimit, severeNearLimit = 0.90, 0.97

	// Of the mappings that a process may have.
	nearMappings, severeNearMappings = 0.75, 0.95

	// Stacks that are incomplete, of all samples, and how many samples say something.
	incompleteShare = 0.10
	leastSamples    = 100

	// Sites shown, and how much of the whole one must have.
	mostSites = 3
	siteShare = 0.05
)
