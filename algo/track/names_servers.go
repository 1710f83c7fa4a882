package track

// Faults of the environments' servers as clients see them (env.Error.Seen),
// counted since the previous line.

const (
	whenFaults  = "lines where it is not zero"
	whenMixture = "runs of several environments"
)

var _ = Define(
	Definition{ServerFaults, "failed or disturbed requests to environment servers since the previous line", everyLine},
	Definition{ServerFaults + "/http_*", "faults: replies with this status", whenFaults},
	Definition{ServerFaults + "/timeout", "faults: no complete reply within the time limit of the call", whenFaults},
	Definition{ServerFaults + "/truncated", "faults: connections that ended after the status line", whenFaults},
	Definition{ServerFaults + "/reset", "faults: connections that ended before any reply", whenFaults},
	Definition{ServerFaults + "/refused", "faults: refused connections", whenFaults},
	Definition{ServerFaults + "/restarted", "faults: requests not sent, or replies ignored, because the server had been restarted", whenFaults},
	Definition{ServerFaults + "/{malformed,oversize,environment_error}", "faults: replies that are malformed, too large, or report an error", whenFaults},
	Definition{ServerFaults + "/{slow,duplicate}", "faults: valid replies that an injected fault delayed or duplicated (env proxy)", whenFaults},
	Definition{Servers + "{requests,instances_created,quarantines}", "requests, created instances and quarantined servers since the previous line", whenFaults},
	Definition{Servers + "*/{requests,instances_created,quarantines}", "the same of one environment", whenMixture},
	Definition{Servers + "*/faults/*", "the same of one environment", whenMixture},
	Definition{Env + "*/{episodes,success_rate,mean_score,mean_turns,dropped}", "results of one environment's training episodes", whenMixture},
)

var (
	_ = SeenBy("cli.TestTrainThroughFaults", ServerFaults+"/http_*", ServerFaults+"/{truncated,reset,slow,duplicate}")
	_ = SeenBy("env/proxy.TestPoolCountsAgree", ServerFaults+"/timeout")
	_ = SeenBy("env.TestSeen", ServerFaults+"/{refused,restarted,malformed,oversize,environment_error}")
	_ = SeenBy("env/pool.TestRowOfFailures", Servers+"quarantines")
	_ = SeenBy("cli.TestMixture", Env+"*/{episodes,success_rate,mean_score,mean_turns,dropped}",
		Servers+"*/{requests,instances_created,quarantines}", Servers+"*/faults/*")
)
