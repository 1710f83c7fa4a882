package configs

import "strconv"

// checkLaunch holds the rules of servers that the program starts itself.
func (c *Config) checkLaunch(fs *Faults) {
	taken := map[int]int{} // the table that has a port
	for i, e := range c.Env {
		at := "env." + strconv.Itoa(i) + "."
		if !e.Launch {
			continue
		}
		if len(e.Servers) > 0 {
			fs.add(at+"servers", "launch = true starts servers of its own: take out one of the two")
		}
		if e.Checkout == "" && len(e.Command) == 0 {
			fs.add(at+"checkout", "launch = true needs the folder of AgentGym's checkout, or a command")
		}
		if e.Python != "" && e.Venv != "" {
			fs.add(at+"venv", "python names the interpreter already: take out one of the two")
		}
		if e.NumServers > 1 && c.environment(e.Name).SharedAccount {
			fs.add(at+"num_servers", "the servers of %s that are started here work on one account, and spoil each other's episodes: set it to 1", e.Name)
		}
		if e.BasePort+e.NumServers-1 > 65535 {
			fs.add(at+"base_port", "%d servers from port %d on do not fit below port 65536", e.NumServers, e.BasePort)
			continue
		}
		for port := e.BasePort; port < e.BasePort+e.NumServers; port++ {
			if other, ok := taken[port]; ok {
				fs.add(at+"base_port", "port %d is that of a server of [[env]] table %d already: choose another", port, other)
				break
			}
			taken[port] = i
		}
	}
}
