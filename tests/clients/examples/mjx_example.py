"""MuJoCo's MJX: steps of a pendulum of two links that a motor drives."""

import jax
import jax.numpy as jnp
import mujoco
from mujoco import mjx

MODEL = """
<mujoco>
  <option timestep="0.01" iterations="2" ls_iterations="4"/>
  <worldbody>
    <body pos="0 0 2">
      <joint name="hinge" type="hinge" axis="0 1 0" damping="0.05"/>
      <geom type="capsule" size="0.05" fromto="0 0 0 0 0 -0.6" mass="1"/>
      <body pos="0 0 -0.6">
        <joint name="elbow" type="hinge" axis="0 1 0"/>
        <geom type="capsule" size="0.04" fromto="0 0 0 0 0 -0.4" mass="0.5"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="hinge" gear="2"/></actuator>
</mujoco>
"""

model = mjx.put_model(mujoco.MjModel.from_xml_string(MODEL))
start = mjx.make_data(model).replace(qpos=jnp.array([0.5, -0.3]))


step = jax.jit(mjx.step)
data, found = start, []
for control in (0.3, -0.2, 0.1):
    data = step(model, data.replace(ctrl=jnp.array([control])))
    found.append([data.qpos, data.qvel, data.xpos])
results = found
