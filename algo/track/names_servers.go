package track

// What the environments' servers did wrong, as clients see it (env.Error.Seen),
// counted since the line before.

const (
	whenFaults  = "lines before which there were some"
	whenMixture = "runs of several environments"
)

var _ = Define(
	Definition{ServerFaults, "requests to environment servers since the line before of which something was wrong", everyLine},
	Definition{ServerFaults + "/http_*", "of these, answers with that status", whenFaults},
	Definition{ServerFaults + "/timeout", "no complete reply within the time limit of the call", whenFaults},
	Definition{ServerFaults + "/truncated", "connections that ended behind the status line", whenFaults},
	Definition{ServerFaults + "/reset", "connections that ended before any reply", whenFaults},
	Definition{ServerFaults + "/refused", "requests that found no connection", whenFaults},
	Definition{ServerFaults + "/restarted", "requests not sent, or whose reply was not taken, since their server had been started again", whenFaults},
	Definition{ServerFaults + "/{malformed,oversize,environment_error}", "replies that could not be read, were too large, or named an error", whenFaults},
	Definition{ServerFaults + "/{slow,duplicate}", "good replies that were held up, or whose request was carried out twice, on purpose (env proxy)", whenFaults},
	Definition{Servers + "{requests,instances_created,quarantines}", "requests, created instances, and servers taken out of service, since the line before", whenFaults},
	Definition{Servers + "*/{requests,instances_created,quarantines}", "the same of one environment", whenMixture},
	Definition{Servers + "*/faults/*", "the same of one environment", whenMixture},
	Definition{Env + "*/{episodes,success_rate,mean_score,mean_turns,dropped}", "training episodes of one environment", whenMixture},
)

var (
	_ = SeenBy("cli.TestTrainThroughFaults", ServerFaults+"/http_*", ServerFaults+"/{truncated,reset,slow,duplicate}")
	_ = SeenBy("env/proxy.TestPoolCountsAgree", ServerFaults+"/timeout")
	_ = SeenBy("env.TestSeen", ServerFaults+"/{refused,restarted,malformed,oversize,environment_error}")
	_ = SeenBy("env.TestRowOfFailures", Servers+"quarantines")
	_ = SeenBy("cli.TestMixture", Env+"*/{episodes,success_rate,mean_score,mean_turns,dropped}",
		Servers+"*/{requests,instances_created,quarantines}", Servers+"*/faults/*")
)
