package doctor

import (
	"context"
	"fmt"
	"net"
	"strings"
)

func ports(ctx context.Context, m *Machine) []Finding {
	free := func(port int) error {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return err
		}
		return l.Close()
	}
	if err := free(0); err != nil {
		return []Finding{{"ports", Fail, err.Error(), "built-in servers listen on 127.0.0.1: bring the loopback interface up (ip link set lo up)"}}
	}
	var used, all []string
	for _, port := range m.Ports {
		all = append(all, fmt.Sprint(port))
		if free(port) != nil {
			used = append(used, fmt.Sprint(port))
		}
	}
	if len(used) > 0 {
		return []Finding{{"ports", Warn, strings.Join(used, ", ") + " in use on 127.0.0.1",
			"if these are not your environment servers, choose other ports: env.NAME.base_port, --base-port, --port"}}
	}
	return []Finding{ok("ports", "%s free on 127.0.0.1", strings.Join(all, ", "))}
}
