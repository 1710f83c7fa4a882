package configs

import "strconv"

// checkLaunch checks the keys of servers that the program starts.
func (c *Config) checkLaunch(fs *Faults) {
	taken := map[int]int{} // ports to tables
	for i, e := range c.Env {
		at := "env." + strconv.Itoa(i) + "."
		if !e.Launch {
			continue
		}
		if len(e.Servers) > 0 {
			fs.add(at+"servers", "launch = true starts servers, so addresses are not used: take out one of the two")
		}
		if e.Checkout == "" && len(e.Command) == 0 {
			fs.add(at+"checkout", "launch = true needs the folder of AgentGym's checkout, or a command")
		}
		if e.Python != "" && e.Venv != "" {
			fs.add(at+"venv", "python names the interpreter already: take out one of the two")
		}
		if e.NumServers > 1 && c.environment(e.Name).SharedAccount {
			fs.add(at+"num_servers", "launched servers of %s share one account and disturb each other's episodes: set it to 1", e.Name)
		}
		if e.BasePort+e.NumServers-1 > 65535 {
			fs.add(at+"base_port", "%d servers from port %d on exceed port 65535", e.NumServers, e.BasePort)
			continue
		}
		for port := e.BasePort; port < e.BasePort+e.NumServers; port++ {
			if other, ok := taken[port]; ok {
				fs.add(at+"base_port", "port %d is taken by a server of [[env]] table %d: choose another", port, other)
				break
			}
			taken[port] = i
		}
	}
}
